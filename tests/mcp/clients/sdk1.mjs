// The TypeScript SDK 1.x as a client: sdk1.mjs http|sse URL REVISION, or sdk1.mjs stdio REVISION COMMAND…
// REVISION is what it offers in `initialize`; the SDK itself would only offer its newest.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { asked, cancelled, progressed, report, work } from "./session.mjs";

const [kind, ...rest] = process.argv.slice(2);
const revision = kind === "stdio" ? rest[0] : rest[1];

function open() {
  if (kind === "stdio")
    return new StdioClientTransport({ command: rest[1], args: rest.slice(2), stderr: "inherit", env: process.env });
  return new (kind === "sse" ? SSEClientTransport : StreamableHTTPClientTransport)(new URL(rest[0]));
}

const transport = open();
const send = transport.send.bind(transport);
transport.send = (message, options) => {
  if (message.method === "initialize") message.params.protocolVersion = revision;
  return send(message, options);
};
let agreed = null;
const setVersion = transport.setProtocolVersion?.bind(transport);
transport.setProtocolVersion = (version) => {
  agreed = version;
  setVersion?.(version);
};

const client = new Client({ name: "krait-test", version: "1" }, { capabilities: { elicitation: {} } });
const problems = [];
client.onerror = (error) => {
  if (!String(error).includes("AbortError")) problems.push(String(error)); // what its own leaving interrupts
};
client.setRequestHandler(ElicitRequestSchema, (request) => {
  const field = Object.keys(request.params.requestedSchema.properties)[0];
  return { action: "accept", content: { [field]: "Ada" } };
});
await client.connect(transport);
const callTool = (params, options) => client.callTool(params, undefined, options);
const seen = await work(client, agreed);
seen.progressed = await progressed(callTool);
seen.asked = await asked(callTool);
if (!process.env.NO_CANCEL) seen.cancelled = await cancelled(callTool);
await client.close();
seen.problems = problems;
report(seen);
process.exit(0);
