// The TypeScript SDK 1.x as a client: sdk1.mjs http|sse URL REVISION, or sdk1.mjs stdio REVISION COMMAND…
// REVISION is what it offers in `initialize`; the SDK itself would only offer its newest.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { apart, asked, cancelled, heard, progressed, report, values, work } from "./session.mjs";

const [kind, ...rest] = process.argv.slice(2);
const revision = kind === "stdio" ? rest[0] : rest[1];

function open() {
  if (kind === "stdio")
    return new StdioClientTransport({ command: rest[1], args: rest.slice(2), stderr: "inherit", env: process.env });
  return new (kind === "sse" ? SSEClientTransport : StreamableHTTPClientTransport)(new URL(rest[0]));
}

const problems = [];
const changes = heard();

async function connect() {
  const transport = open();
  const send = transport.send.bind(transport);
  const opened = { version: null };
  transport.send = (message, options) => {
    if (message.method === "initialize") message.params.protocolVersion = revision;
    return send(message, options);
  };
  const setVersion = transport.setProtocolVersion?.bind(transport);
  transport.setProtocolVersion = (version) => {
    opened.version = version;
    setVersion?.(version);
  };
  opened.client = new Client({ name: "krait-test", version: "1" },
    { capabilities: { elicitation: {} }, listChanged: { resources: { onChanged: changes.on } } });
  opened.client.onerror = (error) => {
    if (!String(error).includes("AbortError")) problems.push(String(error)); // what its own leaving interrupts
  };
  opened.client.setRequestHandler(ElicitRequestSchema, (request) => {
    const field = Object.keys(request.params.requestedSchema.properties)[0];
    return { action: "accept", content: { [field]: "Ada" } };
  });
  await opened.client.connect(transport);
  return opened;
}

const { client, version } = await connect();
const callTool = (params, options) => client.callTool(params, undefined, options);
const seen = await work(client, version);
seen.progressed = await progressed(callTool);
seen.asked = await asked(callTool);
seen.values = await values(callTool);
seen.changed = await changes.after(callTool);
if (kind !== "stdio") {
  const second = (await connect()).client;
  seen.apart = await apart(client, second);
  await second.close();
}
// Last: SDK 1.x tries to resume the stream of a call that it cancelled.
if (!process.env.NO_CANCEL) seen.cancelled = await cancelled(callTool);
await client.close();
seen.problems = problems;
report(seen);
process.exit(0);
