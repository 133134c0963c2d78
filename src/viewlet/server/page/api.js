// Requests to the server that sent this page; an error has the server's message and position.

export class Failure extends Error {
  constructor(status, error) {
    super(error.hint ? `${error.message}\nhint: ${error.hint}` : error.message);
    this.status = status;
    this.line = error.line;
    this.column = error.column;
  }
}

async function answered(path, options) {
  const response = await fetch(path, options);
  if (response.ok) return response;
  let error = { message: `${response.status} ${response.statusText}` };
  try { error = (await response.json()).error; } catch { /* no JSON: the status says it */ }
  if (response.status === 401) {
    await askForToken();
    return answered(path, options);
  }
  throw new Failure(response.status, error);
}

export const json = async (path, options) => (await answered(path, options)).json();
export const text = async (path) => (await answered(path)).text();
export const pathOf = (name) => `/views/${encodeURIComponent(name)}`;

let asking = null;

/** One dialog, however many requests were refused; resolves once the server takes the token. */
function askForToken() {
  asking ??= new Promise((resolve) => {
    const dialog = document.getElementById("login");
    const input = document.getElementById("token");
    const submit = async (event) => {
      event.preventDefault();
      const response = await fetch("/login", { method: "POST", body: input.value });
      if (!response.ok) {
        document.getElementById("login-problem").textContent = "the token is wrong";
        return;
      }
      dialog.removeEventListener("submit", submit);
      dialog.close();
      asking = null;
      resolve();
    };
    dialog.addEventListener("submit", submit);
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    dialog.showModal();
  });
  return asking;
}
