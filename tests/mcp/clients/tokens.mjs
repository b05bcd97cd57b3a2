// Tokens of the JSON on stdin, as o200k_base counts them: what a tools/list costs a model.
//     node tokens.mjs < tools.json
import { readFileSync } from "node:fs";
import { countTokens } from "gpt-tokenizer/encoding/o200k_base";

console.log(countTokens(JSON.stringify(JSON.parse(readFileSync(0, "utf8")))));
