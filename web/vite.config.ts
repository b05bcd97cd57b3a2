// How the pages are built: two HTML files into dist, their scripts and styles beside them under names with a hash, so
// that they can be cached for good. tools/web-build runs this, tools/embed-web.py puts dist into the program.
//
// Addresses are relative (base "./"), so that krait works beneath a path of a proxy. Nothing is inlined: the pages obey
// a Content-Security-Policy without inline scripts and styles (src/http/message/guard_headers.c, docs/design/web.md).
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { defineConfig, type Plugin } from "vite";

// The texts that the licences of what is carried ask to go with it.
function licences(): Plugin {
    const folder = dirname(createRequire(import.meta.url).resolve("swagger-ui-dist/package.json"));
    const files = ["NOTICE", "LICENSE", "swagger-ui-es-bundle.js.LICENSE.txt"];
    return {
        name: "licences",
        apply: "build",
        generateBundle() {
            const texts = files.map((name) => readFileSync(join(folder, name), "utf8").trim());
            this.emitFile({
                type: "asset",
                fileName: "assets/licences.txt",
                source: ["The page /docs is made with Swagger UI.", ...texts].join("\n\n") + "\n",
            });
        },
    };
}

export default defineConfig({
    base: "./",
    plugins: [licences()],
    build: {
        target: "es2022",
        outDir: process.env.KRAIT_WEB_OUT ?? "dist",
        emptyOutDir: true,
        assetsInlineLimit: 0,
        modulePreload: { polyfill: false },
        reportCompressedSize: false,
        chunkSizeWarningLimit: 2000,
        rollupOptions: { input: { index: "index.html", docs: "docs.html" } },
    },
    server: {
        // `npm run dev` beside a running krait. The page is then ours to it as well: same Host, no Origin.
        proxy: Object.fromEntries(
            ["/openapi.json", "/health", "/ready", "/api", "/execute"].map((path) => [path, "http://127.0.0.1:8642"]),
        ),
    },
});
