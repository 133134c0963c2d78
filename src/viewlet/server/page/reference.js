// /openapi.json as a page: what may be asked for, with which parameters, and a line for curl.

import { json } from "./api.js";
import { element } from "./format.js";

const host = document.getElementById("reference");
const theme = localStorage.getItem("viewlet-theme");
document.documentElement.dataset.theme =
  theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");

function curl(method, path, body) {
  const kind = Object.keys(body?.content ?? {})[0];
  const parts = ["curl"];
  if (method !== "get") parts.push(`-X ${method.toUpperCase()}`);
  if (kind) parts.push(`-H 'Content-Type: ${kind}' --data-binary @FILE`);
  return [...parts, `'${location.origin}${path.replace("{name}", "NAME")}'`].join(" ");
}

function parameters(listed) {
  const table = document.createElement("table");
  for (const { name, description, schema } of listed) {
    const row = table.insertRow();
    const kinds = schema.enum?.join(", ") ?? schema.type;
    row.append(element("td", name, "name"), element("td", description), element("td", kinds, "quiet"));
  }
  return table;
}

const { paths, info } = await json("/openapi.json");
host.append(element("p", `Version ${info.version}. With a token: Authorization: Bearer TOKEN.`, "quiet"));
for (const [path, operations] of Object.entries(paths)) {
  for (const [method, { summary, parameters: listed, requestBody, responses }] of Object.entries(operations)) {
    const part = element("section");
    const head = element("h2");
    head.append(element("b", method.toUpperCase(), "badge"), element("code", ` ${path}`));
    part.append(head, element("p", summary));
    const own = (listed ?? []).filter((one) => one.in === "query");
    if (own.length) part.append(parameters(own));
    part.append(element("p", `Answers: ${Object.keys(responses["200"].content).join(", ")}`, "quiet"));
    if (requestBody) part.append(element("p", `Takes: ${Object.keys(requestBody.content).join(", ")}`, "quiet"));
    part.append(element("pre", curl(method, path, requestBody)));
    host.append(part);
  }
}
