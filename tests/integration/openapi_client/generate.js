// Writes sdk/: functions and types for each operation of openapi.json.
import { createClient } from "@hey-api/openapi-ts";

await createClient({
    input: "openapi.json",
    output: { path: "sdk", importFileExtension: ".js" },
    plugins: ["@hey-api/client-fetch", "@hey-api/sdk", "@hey-api/typescript"],
    logs: { level: "silent" },
});
