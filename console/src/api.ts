// Calls of the broker. The token lives in this module's memory only: a reload forgets it.

let credential: string | null = null;
let onUnauthenticated: (reason: string) => void = () => undefined;

export class Refused extends Error {
  constructor(readonly status: number, reason: string) {
    super(reason);
  }
}

export function setCredential(value: string | null): void {
  credential = value;
}

export function whenUnauthenticated(listener: (reason: string) => void): void {
  onUnauthenticated = listener;
}

function headers(more: Record<string, string> = {}): Record<string, string> {
  return credential === null ? more : { authorization: credential, ...more };
}

async function check(response: Response): Promise<Response> {
  if (response.ok) return response;
  let reason = `${response.status} ${response.statusText}`;
  try {
    reason = ((await response.json()) as { reason?: string }).reason ?? reason;
  } catch {
    // The body is not JSON: the status says enough.
  }
  if (response.status === 401 && /^Authentication required|authentication method/i.test(reason)) onUnauthenticated(reason);
  throw new Refused(response.status, reason);
}

/** Raise Refused without a status when nothing comes back. */
async function ask(method: string, path: string, body?: string): Promise<Response> {
  const kind: Record<string, string> = body === undefined ? {} : { "content-type": "application/json" };
  try {
    return await fetch(path, { method, headers: headers(kind), credentials: "omit", redirect: "error", body });
  } catch {
    throw new Refused(0, "The broker does not answer, or it sends this call to another broker");
  }
}

async function send(method: string, path: string, body?: unknown): Promise<Response> {
  return check(await ask(method, path, body === undefined ? undefined : JSON.stringify(body)));
}

export interface Exchange {
  status: number;
  text: string;
}

/** A call whatever it answers: for the page that shows calls as they are. */
export async function exchange(method: string, path: string, body?: string): Promise<Exchange> {
  try {
    const response = await ask(method, path, body);
    const text = await response.text();
    try {
      return { status: response.status, text: JSON.stringify(JSON.parse(text), null, 2) };
    } catch {
      return { status: response.status, text };
    }
  } catch (error) {
    return { status: 0, text: error instanceof Error ? error.message : String(error) };
  }
}

export async function get<T>(path: string): Promise<T> {
  const text = await (await send("GET", path)).text();
  return (text === "" ? null : JSON.parse(text)) as T;
}

export async function put(path: string, body?: unknown): Promise<void> {
  await send("PUT", path, body);
}

export async function post<T = unknown>(path: string, body?: unknown): Promise<T | null> {
  const text = await (await send("POST", path, body)).text();
  return text === "" ? null : (JSON.parse(text) as T);
}

export async function remove(path: string): Promise<void> {
  await send("DELETE", path);
}

/** By a method that a description names. */
export async function call(method: string, path: string, body?: unknown): Promise<void> {
  await send(method, path, body);
}

export type Connection = "connecting" | "live" | "lost";

/** Follow a page's state. The broker sends it when it changes; a hidden page asks for nothing. */
export function watch<T>(
  path: string,
  onState: (state: T) => void,
  onProblem: (reason: string) => void,
  onConnection: (connection: Connection) => void = () => undefined,
): () => void {
  let stopped = false;
  let abort = new AbortController();
  let wake: () => void = () => undefined;

  async function once(): Promise<void> {
    const response = await check(
      await fetch(path, { headers: headers({ accept: "text/event-stream" }), signal: abort.signal, credentials: "omit" }),
    );
    onConnection("live");
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      text += value;
      let end: number;
      while ((end = text.indexOf("\n\n")) >= 0) {
        const event = text.slice(0, end);
        text = text.slice(end + 2);
        const data = /^data: (.*)$/m.exec(event)?.[1];
        if (data === undefined) continue;
        if (event.startsWith("event: refused")) throw new Refused(403, (JSON.parse(data) as { reason: string }).reason);
        if (event.startsWith("event: state")) onState(JSON.parse(data) as T);
      }
    }
  }

  async function run(): Promise<void> {
    let pause = 500;
    while (!stopped) {
      if (document.hidden) await new Promise<void>((resolve) => (wake = resolve));
      if (stopped) return;
      abort = new AbortController();
      try {
        await once();
        pause = 500;
      } catch (error) {
        if (stopped) return;
        if (!document.hidden) {
          onConnection("lost");
          if (error instanceof Refused) onProblem(error.message);
          if (error instanceof Refused && [400, 403, 404].includes(error.status)) pause = 10_000;
          if (error instanceof Refused && error.status === 401) return;
          await new Promise((resolve) => setTimeout(resolve, pause));
          pause = Math.min(pause * 2, 10_000);
        }
      }
    }
  }

  function onVisibility(): void {
    if (document.hidden) abort.abort();
    else wake();
  }

  document.addEventListener("visibilitychange", onVisibility);
  void run();
  return () => {
    stopped = true;
    document.removeEventListener("visibilitychange", onVisibility);
    abort.abort();
    wake();
  };
}

// Names of topics
export interface Topic {
  domain: string;
  tenant: string;
  namespace: string;
  local: string;
}

export function parseTopic(full: string): Topic {
  const [domain, rest] = full.split("://");
  const [tenant, namespace, ...local] = rest.split("/");
  return { domain, tenant, namespace, local: local.join("/") };
}

export function fullName(topic: Topic): string {
  return `${topic.domain}://${topic.tenant}/${topic.namespace}/${topic.local}`;
}

function tail(topic: Topic): string {
  return [topic.tenant, topic.namespace, topic.local].map(encodeURIComponent).join("/");
}

/** Where the REST interface has a topic: scalable ones have a place of their own. */
export function restPath(topic: Topic): string {
  return topic.domain === "topic" ? `/admin/v2/scalable/${tail(topic)}` : `/admin/v2/${topic.domain}/${tail(topic)}`;
}

export function policyPath(topic: Topic): string {
  return `/admin/v2/${topic.domain}/${tail(topic)}`;
}

export function scalablePath(topic: Topic): string {
  return `/admin/v2/scalable/${tail(topic)}`;
}

export function schemaPath(topic: Topic): string {
  return `/admin/v2/schemas/${tail(topic)}`;
}

export function consolePath(topic: Topic): string {
  return `/console/api/${topic.domain}/${tail(topic)}`;
}

export function topicLink(full: string, tab = ""): string {
  const topic = parseTopic(full);
  return `#/topic/${topic.domain}/${tail(topic)}${tab ? `/${tab}` : ""}`;
}
