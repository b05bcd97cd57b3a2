// The TypeScript SDK 2.x as a client: sdk2.mjs http URL MODE, or sdk2.mjs stdio MODE COMMAND…
// MODE: default, auto, or a revision to pin.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { apart, asked, cancelled, heard, progressed, report, values, work } from "./session.mjs";

const [kind, ...rest] = process.argv.slice(2);
const mode = kind === "stdio" ? rest[0] : rest[1];
const negotiation = { default: {}, auto: { versionNegotiation: { mode: "auto" } } };
const problems = [];
const changes = heard();

async function connect() {
  const transport = kind === "stdio"
    ? new StdioClientTransport({ command: rest[1], args: rest.slice(2), stderr: "inherit", env: process.env })
    : new StreamableHTTPClientTransport(new URL(rest[0]));
  const client = new Client({ name: "krait-test", version: "2" },
    { capabilities: { elicitation: {} }, listChanged: { resources: { onChanged: changes.on } },
      ...(negotiation[mode] ?? { versionNegotiation: { mode: { pin: mode } } }) });
  client.onerror = (error) => {
    if (!String(error).includes("AbortError")) problems.push(String(error)); // what its own leaving interrupts
  };
  client.setRequestHandler("elicitation/create", (request) => {
    const field = Object.keys(request.params.requestedSchema.properties)[0];
    return { action: "accept", content: { [field]: "Ada" } };
  });
  await client.connect(transport);
  return client;
}

const client = await connect();
const callTool = (params, options) => client.callTool(params, options);
const seen = await work(client, client.getNegotiatedProtocolVersion());
seen.progressed = await progressed(callTool);
seen.asked = await asked(callTool);
seen.values = await values(callTool);
seen.changed = await changes.after(callTool);
if (kind !== "stdio") {
  const second = await connect();
  seen.apart = await apart(client, second);
  await second.close();
}
if (!process.env.NO_CANCEL) seen.cancelled = await cancelled(callTool);
await client.close();
seen.problems = problems;
report(seen);
process.exit(0);
