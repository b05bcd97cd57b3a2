// The start page: fills in this server's own address, copies the example, asks how the server is.
import "./start.css";

const byId = (id: string): HTMLElement => {
    const found = document.getElementById(id);
    if (!found) throw new Error(`the page has no #${id}`);
    return found;
};

// The page may be beneath a path of a proxy: everything is beside it.
const here = new URL(".", location.href).href.replace(/\/$/, "");
byId("base").textContent = here;
byId("mcp").textContent = `${here}/mcp`;

const copy = byId("copy");
if (navigator.clipboard) {
    copy.hidden = false;
    copy.addEventListener("click", async () => {
        await navigator.clipboard.writeText(byId("curl").textContent ?? "");
        copy.textContent = "Copied";
        setTimeout(() => (copy.textContent = "Copy"), 1500);
    });
}

interface Health {
    status?: string;
    version?: string;
    active_sessions?: number;
}

async function showHealth(): Promise<void> {
    const line = byId("health");
    try {
        const reply = await fetch("./health", { headers: { Accept: "application/json" } });
        if (!reply.ok) throw new Error(`status ${reply.status}`);
        const health = (await reply.json()) as Health;
        const sessions = health.active_sessions;
        line.className = health.status === "healthy" ? "good" : "bad";
        line.textContent = [
            health.status ?? "no status",
            health.version && `version ${health.version}`,
            sessions !== undefined && `${sessions} ${sessions === 1 ? "session" : "sessions"}`,
        ]
            .filter(Boolean)
            .join(" · ");
    } catch (error) {
        line.className = "bad";
        line.textContent = `health cannot be read: ${error instanceof Error ? error.message : error}`;
    }
}
void showHealth();
