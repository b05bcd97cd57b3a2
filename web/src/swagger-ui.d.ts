// What we use of Swagger UI, which ships no types in this package.
declare module "swagger-ui-dist/swagger-ui-es-bundle.js" {
    interface Options {
        url: string;
        dom_id: string;
        deepLinking?: boolean;
        displayRequestDuration?: boolean;
        docExpansion?: "list" | "full" | "none";
        defaultModelsExpandDepth?: number;
        filter?: boolean;
        persistAuthorization?: boolean;
        tryItOutEnabled?: boolean;
        validatorUrl?: string | null;
    }
    export default function SwaggerUI(options: Options): unknown;
}
