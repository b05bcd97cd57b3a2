// The examples of README.md ("Running code over HTTP") through a client whose types are made from /openapi.json.
import createClient from "openapi-fetch";
import type { paths } from "./krait.js";

declare const process: { argv: string[] };
const krait = createClient<paths>({ baseUrl: process.argv[2] });

function same(got: unknown, want: unknown, what: string): void {
    if (JSON.stringify(got) !== JSON.stringify(want))
        throw new Error(`${what}: got ${JSON.stringify(got)}, not ${JSON.stringify(want)}`);
}

async function run(body: paths["/api/v1/runs"]["post"]["requestBody"]["content"]["application/json"]) {
    const { data, error } = await krait.POST("/api/v1/runs", {
        body: { ...body, stream: false }, headers: { Accept: "application/json" },
    });
    if (!data || typeof data === "string")
        throw new Error(`no outcome: ${JSON.stringify(error ?? data)}`);
    return data;
}

async function oneAnswer() {
    const done = await run({ code: "print(6 * 7)" });
    same([done.stdout, done.cause, done.exit_code], ["42\n", "ok", 0], "one answer");
    return done.run_id;
}

async function stream() {
    const { data, response } = await krait.POST("/api/v1/runs", {
        body: { code: "for i in range(3): print(i)" }, parseAs: "text",
    });
    const lines = String(data).trim().split("\n").map(line => JSON.parse(line) as { seq: number; type: string });
    same(lines.at(-1)?.type, "end", "the last line");
    const run_id = response.headers.get("x-run-id") ?? "";
    const again = await krait.GET("/api/v1/runs/{run_id}/events", {
        params: { path: { run_id }, query: { from: 2 } }, parseAs: "text",
    });
    same(JSON.parse(String(again.data).split("\n")[0]).seq, 2, "picked up from its second line");
    const read = await krait.GET("/api/v1/runs/{run_id}", { params: { path: { run_id } } });
    same([read.data?.run_id, read.data?.cause], [run_id, "ok"], "read");
    const late = await krait.POST("/api/v1/runs/{run_id}/cancel", { params: { path: { run_id } } });
    same([late.response.status, late.error?.error.kind], [409, "conflict"], "cancelled too late");
}

async function sessions() {
    const session_id = "analysis";
    await run({ session_id, code: "total = sum(values)", variables: { values: [1, 2, 3] } });
    same((await run({ session_id, code: "total * 7" })).result, "42", "variables stay");
    const listed = await krait.GET("/api/v1/sessions");
    same(listed.data?.sessions[session_id]?.session_id, session_id, "the session is listed");
    const ended = await krait.DELETE("/api/v1/sessions/{session_id}", { params: { path: { session_id } } });
    same(ended.response.status, 200, "the session ends");
    const gone = await krait.GET("/api/v1/sessions/{session_id}", { params: { path: { session_id } } });
    same([gone.error?.error.kind, gone.error && "detail" in gone.error && gone.error.detail],
         ["not_found", "Session not found"], "an error of a document's route");
}

async function files() {
    const made = await krait.POST("/api/v1/sandboxes", {
        body: { name: "census", limits: { memory: "512M", timeout: "30s" } },
    });
    const sandbox_id = made.data?.sandbox_id ?? "";
    same([made.data?.name, made.data?.limits.timeout], ["census", 30], "a sandbox");
    const path = "data/people.csv";
    const put = await krait.PUT("/api/v1/sandboxes/{sandbox_id}/files/{path}", {
        params: { path: { sandbox_id: "census", path } }, body: "city,people\nA,3\nB,4\n",
        bodySerializer: text => text, headers: { "Content-Type": "application/octet-stream" },
    });
    same([put.response.status, put.data?.path], [201, path], "a file is stored");
    const sum = await run({ sandbox_id, code: "sum(int(l.split(',')[1]) for l in list(open('data/people.csv'))[1:])" });
    same(sum.result, "7", "a run reads it");
    const listed = await krait.GET("/api/v1/sandboxes/{sandbox_id}/files", {
        params: { path: { sandbox_id }, query: { recursive: true } },
    });
    same(listed.data?.files.filter(one => one.type === "file").map(one => one.path), [path], "it is listed");
    const got = await krait.GET("/api/v1/sandboxes/{sandbox_id}/files/{path}", {
        params: { path: { sandbox_id, path } }, parseAs: "text",
    });
    same(got.data, "city,people\nA,3\nB,4\n", "it is read");
    const link = await krait.POST("/api/v1/sandboxes/{sandbox_id}/links", {
        params: { path: { sandbox_id } }, body: { path },
    });
    same((await fetch(link.data?.url ?? "")).status, 200, "its link");
    const gone = await krait.DELETE("/api/v1/sandboxes/{sandbox_id}", { params: { path: { sandbox_id } } });
    same(gone.response.status, 204, "the sandbox is deleted");
}

async function limits() {
    same((await run({ code: "while True: pass", timeout: 1 })).cause, "timeout", "a timeout");
    same((await run({ code: "open('/etc/shadow')" })).error?.type, "FileNotFoundError", "an exception");
    const wrong = await krait.POST("/api/v1/runs", { body: { code: "1", timeout: 1e9 } });
    same([wrong.response.status, wrong.error?.error.field], [400, "timeout"], "a field that is wrong");
    // @ts-expect-error code is required
    same((await krait.POST("/api/v1/runs", { body: {} })).response.status, 400, "a field that is missing");
}

await oneAnswer();
await stream();
await sessions();
await files();
await limits();
console.log("ok");
