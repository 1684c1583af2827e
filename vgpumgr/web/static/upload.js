// Sends an image's file in pieces: what a cut has left is gone on with, also after the page was loaded again.

import {sha256} from "./vendor/noble/sha2.js";

const form = document.getElementById("upload");
const state = document.getElementById("upload-state");
const progress = document.getElementById("upload-progress");
const READ = 4 << 20, PIECE = 8 << 20, FIRST_MS = 500, LONGEST_MS = 15_000;

class Refused extends Error {}

function told(text, share) {
  state.textContent = text;
  progress.hidden = share === undefined;
  if (share !== undefined) progress.value = share;
}

async function digest(file) {
  const hash = sha256.create();
  for (let at = 0; at < file.size; at += READ) {
    hash.update(new Uint8Array(await file.slice(at, at + READ).arrayBuffer()));
    told("Reading the file…", at / file.size);
  }
  return [...hash.digest()].map((each) => each.toString(16).padStart(2, "0")).join("");
}

async function ask(method, path, body, headers = {}) {
  const answer = await fetch(path, {method, body, headers});
  const found = answer.status === 204 ? {} : await answer.json();
  if (answer.ok) return found;
  const text = [found.message, found.why].filter(Boolean).join(": ");
  if (answer.status === 401) location.assign(`/login?next=${encodeURIComponent(location.pathname)}`);
  if (answer.status >= 500 || answer.status === 429) throw new Error(text);
  throw Object.assign(new Refused(text), {offset: found.offset});
}

const asJson = (value) => [JSON.stringify(value), {"Content-Type": "application/json"}];

async function send(file, upload) {
  let offset = upload.offset, wait = FIRST_MS;
  while (offset < file.size) {
    told(`Sending ${file.name}…`, offset / file.size);
    try {
      const sent = await ask("PATCH", `/v1/uploads/${encodeURIComponent(upload.name)}`, file.slice(offset, offset + PIECE),
        {"Content-Type": "application/octet-stream", "Upload-Offset": String(offset)});
      offset = sent.offset;
      wait = FIRST_MS;
    } catch (error) {
      if (error instanceof Refused && error.offset === undefined) throw error;
      told(`${error.message}; trying again…`, offset / file.size);
      await new Promise((go) => setTimeout(go, wait));
      wait = Math.min(2 * wait, LONGEST_MS);
      offset = await ask("GET", `/v1/uploads/${encodeURIComponent(upload.name)}`).then((found) => found.offset, () => offset);
    }
  }
}

form?.addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = form.querySelector("button");
  const [file] = form.elements.file.files;
  button.disabled = true;
  try {
    const upload = await ask("POST", "/v1/uploads", ...asJson({file: file.name, bytes: file.size, sha256: await digest(file)}));
    await send(file, upload);
    told("Importing…");
    const asked = {name: form.elements.name.value, format: form.elements.format.value, upload: upload.name};
    const operation = await ask("POST", "/v1/images:import", ...asJson(asked));
    location.assign(operation.done === undefined ? "/images" : `/operations/${encodeURIComponent(operation.name)}`);
  } catch (error) {
    told(error.message);
    button.disabled = false;
  }
});
form?.querySelector("button").removeAttribute("disabled");
