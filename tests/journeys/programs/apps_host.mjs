// A host of MCP Apps: the official client, the app bridge of ext-apps, and a page on its library.
//
// node --input-type=module -e SOURCE ADDRESS ERA TOOL CALLED: opens the page of TOOL, calls TOOL,
// and lets the page call CALLED. The last line says what was seen.
import { Client, InMemoryTransport, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { App } from "@modelcontextprotocol/ext-apps";
import {
  AppBridge,
  RESOURCE_MIME_TYPE,
  getToolUiResourceUri,
  isToolVisibilityAppOnly,
} from "@modelcontextprotocol/ext-apps/app-bridge";

const [address, era, name, called] = process.argv.slice(-4);
const info = { name: "host", version: "1" };
const extensions = { "io.modelcontextprotocol/ui": { mimeTypes: [RESOURCE_MIME_TYPE] } };
const mode = era === "modern" ? { pin: "2026-07-28" } : "legacy";
const client = new Client(info, { capabilities: { extensions }, versionNegotiation: { mode } });
await client.connect(new StreamableHTTPClientTransport(new URL(address)));

const { tools } = await client.listTools();
const tool = tools.find((it) => it.name === name);
// On the search surface the host learns of the page from the result.
const result = tool
  ? await client.callTool({ name, arguments: {} })
  : await client.callTool({ name: "call_tool", arguments: { name, arguments: {} } });
const uri = getToolUiResourceUri(tool ?? result);
const page = (await client.readResource({ uri })).contents[0];

const can = { serverTools: {}, serverResources: {} };
const bridge = new AppBridge(client, info, can, tool && { hostContext: { toolInfo: { tool } } });
const app = new App({ name: "page", version: "1" }, {}, { autoResize: false });
const shown = new Promise((resolve) => (app.ontoolresult = resolve));
const ready = new Promise((resolve) => (bridge.oninitialized = resolve));
const [ofHost, ofPage] = InMemoryTransport.createLinkedPair();
await bridge.connect(ofHost);
await app.connect(ofPage);
await ready;
await bridge.sendToolInput({ arguments: {} });
await bridge.sendToolResult(result);
const reading = await app.readServerResource({ uri });
const answer = await app.callServerTool({ name: called, arguments: {} }).catch((error) => ({
  failed: error.message,
}));

console.log(
  JSON.stringify({
    announced: client.getServerCapabilities().extensions,
    model: tools.filter((it) => !isToolVisibilityAppOnly(it)).map((it) => it.name),
    apps: tools.filter(isToolVisibilityAppOnly).map((it) => it.name),
    uri,
    page: { uri: page.uri, type: page.mimeType, length: page.text.length },
    reading: reading.contents[0].text === page.text,
    shown: (await shown).structuredContent,
    answer,
  }),
);
await client.close();
process.exit(0);
