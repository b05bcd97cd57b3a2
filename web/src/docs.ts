// /docs: Swagger UI on this server's own openapi.json. Nothing is asked of any other host: the validator's badge is off,
// and the page's policy would refuse it.
import SwaggerUI from "swagger-ui-dist/swagger-ui-es-bundle.js";
import "swagger-ui-dist/swagger-ui.css";
import "./docs.css";

// Its dark colours hang on a class of <html>.
const dark = matchMedia("(prefers-color-scheme: dark)");
const applyTheme = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", applyTheme);
applyTheme();

SwaggerUI({
    url: new URL("openapi.json", location.href).href,
    dom_id: "#docs",
    deepLinking: true,
    displayRequestDuration: true,
    docExpansion: "list",
    defaultModelsExpandDepth: 0,
    filter: true,
    persistAuthorization: false, // a key stays in the tab
    tryItOutEnabled: true,
    validatorUrl: null,
});
