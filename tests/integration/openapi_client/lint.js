// What Spectral says of openapi.json by its rules for OpenAPI (spectral:oas, all that it recommends), a line each.
import { readFileSync } from "node:fs";
import core from "@stoplight/spectral-core";
import rulesets from "@stoplight/spectral-rulesets";

const spectral = new core.Spectral();
spectral.setRuleset({ extends: [[rulesets.oas, "recommended"]] });
for (const one of await spectral.run(readFileSync("openapi.json", "utf8")))
    console.log(`${one.code} ${one.path.join(".")}: ${one.message}`);
