// The examples of README.md ("Running code over HTTP") through functions that @hey-api/openapi-ts writes from
// /openapi.json: types and calls both come from the document.
import { client } from "./sdk/client.gen.js";
import {
    cancelRun, createLink, createRun, createSandbox, deleteSandbox, endSession, followRun, listFiles, listSessions,
    readFile, readRun, readSession, writeFile,
} from "./sdk/sdk.gen.js";
import type { RunRequest } from "./sdk/types.gen.js";

declare const process: { argv: string[] };
client.setConfig({ baseUrl: process.argv[2] });

function same(got: unknown, want: unknown, what: string): void {
    if (JSON.stringify(got) !== JSON.stringify(want))
        throw new Error(`${what}: got ${JSON.stringify(got)}, not ${JSON.stringify(want)}`);
}

async function run(body: RunRequest) {
    const { data, error } = await createRun({ body: { ...body, stream: false } });
    if (!data)
        throw new Error(`no outcome: ${JSON.stringify(error)}`);
    return data;
}

async function oneAnswer() {
    const done = await run({ code: "print(6 * 7)" });
    same([done.stdout, done.cause, done.exit_code], ["42\n", "ok", 0], "one answer");
}

async function stream() {
    const { data, response } = await createRun({ body: { code: "for i in range(3): print(i)" }, parseAs: "text" });
    same(JSON.parse(String(data).trim().split("\n").at(-1) ?? "").type, "end", "the last line");
    const run_id = response.headers.get("x-run-id") ?? "";
    const again = await followRun({ path: { run_id }, query: { from: 2 }, parseAs: "text" });
    same(JSON.parse(String(again.data).split("\n")[0]).seq, 2, "picked up from its second line");
    const read = await readRun({ path: { run_id } });
    same([read.data?.run_id, read.data?.cause], [run_id, "ok"], "read");
    const late = await cancelRun({ path: { run_id } });
    same([late.response.status, late.error?.error.kind], [409, "conflict"], "cancelled too late");
}

async function sessions() {
    const session_id = "analysis";
    await run({ session_id, code: "total = sum(values)", variables: { values: [1, 2, 3] } });
    same((await run({ session_id, code: "total * 7" })).result, "42", "variables stay");
    const listed = await listSessions();
    same(listed.data?.sessions[session_id]?.session_id, session_id, "the session is listed");
    same((await endSession({ path: { session_id } })).response.status, 200, "the session ends");
    same((await readSession({ path: { session_id } })).error?.error.kind, "not_found", "it is gone");
}

async function files() {
    const made = await createSandbox({ body: { name: "census", limits: { memory: "512M", timeout: "30s" } } });
    const sandbox_id = made.data?.sandbox_id ?? "", path = "data/people.csv", text = "city,people\nA,3\nB,4\n";
    same([made.data?.name, made.data?.limits.timeout], ["census", 30], "a sandbox");
    const put = await writeFile({ path: { sandbox_id: "census", path }, body: new Blob([text]) });
    same([put.response.status, put.data?.path], [201, path], "a file is stored");
    const sum = await run({ sandbox_id, code: "sum(int(l.split(',')[1]) for l in list(open('data/people.csv'))[1:])" });
    same(sum.result, "7", "a run reads it");
    const listed = await listFiles({ path: { sandbox_id }, query: { recursive: true } });
    same(listed.data?.files.filter(one => one.type === "file").map(one => one.path), [path], "it is listed");
    const got = await readFile({ path: { sandbox_id, path }, parseAs: "blob" });
    same(await got.data?.text(), text, "it is read");
    const link = await createLink({ path: { sandbox_id }, body: { path } });
    same((await fetch(link.data?.url ?? "")).status, 200, "its link");
    same((await deleteSandbox({ path: { sandbox_id } })).response.status, 204, "the sandbox is deleted");
}

async function limits() {
    same((await run({ code: "while True: pass", timeout: 1 })).cause, "timeout", "a timeout");
    same((await run({ code: "open('/etc/shadow')" })).error?.type, "FileNotFoundError", "an exception");
    const wrong = await createRun({ body: { code: "1", timeout: 1e9 } });
    same([wrong.response.status, wrong.error?.error.field], [400, "timeout"], "a field that is wrong");
    // @ts-expect-error code is required
    same((await createRun({ body: {} })).response.status, 400, "a field that is missing");
}

await oneAnswer();
await stream();
await sessions();
await files();
await limits();
console.log("ok");
