// One short session of work, the same for every client of the TypeScript SDKs: what it saw goes to stdout as one JSON object.
// clients.py judges it.

// Each client has a session of its own: they share one user.
const SESSION = process.env.SESSION ?? "sdk";

export async function work(client, version) {
  const seen = { version, server: client.getServerVersion()?.name, instructions: !!client.getInstructions() };
  const call = (code, more = {}, options = undefined) =>
    client.callTool({ name: "execute_python", arguments: { code, session_id: SESSION, ...more } }, ...options ?? []);

  const { tools } = await client.listTools();
  seen.tools = tools.map((tool) => tool.name);
  seen.first = textOf(await call("x = 41\nprint(6 * 7)"));
  seen.kept = textOf(await call("print(x + 1)"));
  const failed = await call("1 / 0");
  seen.failed = { isError: failed.isError === true, text: textOf(failed) };
  seen.prompts = (await client.listPrompts()).prompts.length;
  seen.templates = (await client.listResourceTemplates()).resourceTemplates.map((one) => one.uriTemplate);
  seen.unknownTool = await errorOf(client.callTool({ name: "no_such_tool", arguments: {} }));
  seen.badArguments = (await client.callTool({ name: "execute_python", arguments: {} })).isError === true;
  return seen;
}

export function textOf(result) {
  return result.content.filter((block) => block.type === "text").map((block) => block.text).join("\n").trim();
}

export async function errorOf(promise) {
  try {
    await promise;
    return null;
  } catch (error) {
    return error.code ?? String(error);
  }
}

// A run that asks: the client answers `Ada`, then the run goes on where it was.
export async function asked(callTool) {
  return textOf(await callTool({ name: "execute_python",
    arguments: { code: "print('before')\nname = input('Who? ')\nprint('hello', name)", session_id: SESSION } }));
}

// Leaves a run that would not end, and uses the same session again: it is free, since the run was really stopped.
export async function cancelled(callTool) {
  const stop = new AbortController();
  const pending = callTool({ name: "execute_python",
    arguments: { code: "import time\nwhile True:\n    time.sleep(0.05)", session_id: SESSION, timeout: 300 } },
    { signal: stop.signal, timeout: 120000 });
  setTimeout(() => stop.abort(new Error("enough")), 800);
  const how = await errorOf(pending);
  const after = textOf(await callTool({ name: "execute_python", arguments: { code: "print('free')", session_id: SESSION } },
    { timeout: 60000 }));
  return { how: how !== null, after };
}

// Progress while a run is on its way.
export async function progressed(callTool) {
  const notes = [];
  const result = await callTool({ name: "execute_python",
    arguments: { code: "import time\nfor i in range(6):\n    print('step', i, flush=True)\n    time.sleep(0.15)", session_id: SESSION } },
    { onprogress: (note) => notes.push(note.progress) });
  const rising = notes.every((value, i) => i === 0 || value > notes[i - 1]);
  return { count: notes.length, rising, text: textOf(result) };
}

// Integers past 64 bits as JavaScript writes them, and null for all that may be left out.
export async function values(callTool) {
  const run = async (more) => textOf(await callTool({ name: "execute_python", arguments: more }));
  const large = await run({ code: "print(n, m)", session_id: SESSION, variables: { n: 2 ** 63, m: -(2 ** 69) } });
  const nulls = await run({ code: "print('nulls')", session_id: null, sandbox_id: null, timeout: null, stdin: null,
    env: null, variables: null, fresh: null });
  const shell = textOf(await callTool({ name: "execute_terminal_command", arguments: { command: "echo nulls",
    session_id: null, sandbox_id: null, timeout: null, stdin: null, env: null, cwd: null } }));
  return { large, nulls, shell };
}

// What the client's own handler of changed resources sees once code has made a file.
export function heard() {
  const came = [];
  let wake = () => {};
  const on = (error, resources) => {
    came.push(error ? String(error) : (resources ?? []).map((one) => one.uri));
    wake();
  };
  async function after(callTool) {
    const made = `made-${SESSION}.txt`;
    const has = (one) => Array.isArray(one) && one.some((uri) => uri.endsWith("/" + made));
    const code = `open("${made}", "w").close()`;
    await callTool({ name: "execute_python", arguments: { code, session_id: SESSION } });
    const deadline = setTimeout(() => { wake = null; }, 20000);
    while (wake && !came.some(has))
      await Promise.race([new Promise((resolve) => { wake = resolve; }), new Promise((r) => setTimeout(r, 200))]);
    clearTimeout(deadline);
    return came.some(has);
  }
  return { on, after };
}

// Two clients that name no session: what the second sees of the first's variables and /tmp; that the first has them.
export async function apart(first, second) {
  const python = async (client, code) => textOf(await client.callTool({ name: "execute_python", arguments: { code } }));
  const shell = async (client, command) =>
    textOf(await client.callTool({ name: "execute_terminal_command", arguments: { command } }));
  await python(first, "mine = 'first'");
  await shell(first, "echo first > /tmp/own");
  return { python: await python(second, "print(mine)"), shell: await shell(second, "cat /tmp/own"),
    kept: [await python(first, "print(mine)"), await shell(first, "cat /tmp/own")] };
}

export function report(seen) {
  process.stdout.write(JSON.stringify(seen) + "\n");
}
