// What Spectral says of openapi.json by its rules for OpenAPI (spectral:oas, all that it recommends), a line each.
import { readFileSync } from "node:fs";
import core from "@stoplight/spectral-core";
import rulesets from "@stoplight/spectral-rulesets";

const text = readFileSync("openapi.json", "utf8");
const { paths } = JSON.parse(text);
// A WebSocket begins with 101, which that rule does not know for a success.
const isSocket = ({ code, path }) => code === "operation-success-response" && "101" in paths[path[1]][path[2]].responses;
const spectral = new core.Spectral();
spectral.setRuleset({ extends: [[rulesets.oas, "recommended"]] });
for (const one of await spectral.run(text))
    if (!isSocket(one)) console.log(`${one.code} ${one.path.join(".")}: ${one.message}`);
