// The TypeScript SDK 1.x with a task of 2025-11-25 that asks: sdk1_tasks.mjs URL
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { report, textOf } from "./session.mjs";

const client = new Client({ name: "krait-test", version: "1" }, { capabilities: { elicitation: {} } });
client.setRequestHandler(ElicitRequestSchema, () => ({ action: "accept", content: { line: "Ada" } }));
await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[2])));
await client.listTools();

const seen = { kinds: [], statuses: [] };
const code = "import time\ntime.sleep(0.7)\nprint('hello', input('Who? '))";
const params = { name: "execute_python", arguments: { code, session_id: process.env.SESSION } };
for await (const step of client.experimental.tasks.callToolStream(params, undefined, { task: { ttl: 60000 } })) {
  seen.kinds.push(step.type);
  if (step.task) seen.statuses.push(step.task.status);
  if (step.type === "result") seen.text = textOf(step.result);
}
seen.listed = (await client.experimental.tasks.listTasks()).tasks.map((task) => task.status);
await client.close();
report(seen);
process.exit(0);
