import "./app.css";
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Refused, get, setCredential, whenUnauthenticated } from "./api";
import { Brokers, Clients, Configuration } from "./broker";
import { NamespacePage, Tenants } from "./tenants";
import { Overview } from "./overview";
import { Reports } from "./reports";
import { Rest } from "./rest";
import { TopicPage } from "./topic";
import { Transactions } from "./transactions";
import { Topics } from "./topics";
import { Note } from "./ui";

export interface Session {
  role?: string;
  isAnonymous: boolean;
  isSuper: boolean;
  isAuthenticationEnabled: boolean;
  version: string;
  cluster: string;
  brokerId: string;
}

/** [page, its name, whether it is for super-users alone, the lines of its sign] */
const PAGES: [string, string, boolean, string][] = [
  ["overview", "Overview", false, "M3 13a7 7 0 0 1 14 0M10 13l3-4"],
  ["topics", "Topics", false, "M3 5h14M3 10h14M3 15h9"],
  ["tenants", "Tenants", false, "M3 16V7l5-3v12M8 16V8l9 3v5M3 16h14"],
  ["clients", "Clients", true, "M4 5h12v8H4zM8 16h4M10 13v3"],
  ["brokers", "Brokers", true, "M4 4h12v5H4zM4 11h12v5H4zM7 6.5h.1M7 13.5h.1"],
  ["transactions", "Transactions", true, "M4 7h11l-3-3M16 13H5l3 3"],
  ["configuration", "Configuration", true, "M4 6h6M14 6h2M12 4v4M4 14h2M10 14h6M8 12v4"],
  ["rest", "REST", true, "M7 5l-4 5 4 5M13 5l4 5-4 5"],
  ["reports", "Reports", false, "M5 3h7l3 3v11H5zM8 14v-3M10.5 14V8M13 14v-2"],
];

function usePath(): string[] {
  const read = (): string[] => location.hash.replace(/^#\/?/, "").split("?")[0].split("/").map(decodeURIComponent);
  const [path, setPath] = useState(read);
  useEffect(() => {
    const onChange = (): void => {
      setPath(read());
      window.scrollTo(0, 0);
    };
    window.addEventListener("hashchange", onChange);
    return () => window.removeEventListener("hashchange", onChange);
  }, []);
  return path;
}

function Theme() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const [choice, setChoice] = useState("system");
  useEffect(() => {
    const apply = (): void => {
      const isDark = choice === "dark" || (choice === "system" && dark.matches);
      document.documentElement.dataset.theme = isDark ? "dark" : "light";
    };
    apply();
    dark.addEventListener("change", apply);
    return () => dark.removeEventListener("change", apply);
  }, [choice]);
  return (
    <label>
      Theme{" "}
      <select value={choice} onChange={(event) => setChoice(event.currentTarget.value)}>
        <option value="system">system</option>
        <option value="light">light</option>
        <option value="dark">dark</option>
      </select>
    </label>
  );
}

function Login(props: { reason: string; onDone: () => void }) {
  const [kind, setKind] = useState("token");
  const [first, setFirst] = useState("");
  const [second, setSecond] = useState("");
  function submit(event: Event): void {
    event.preventDefault();
    setCredential(kind === "token" ? `Bearer ${first.trim()}` : `Basic ${btoa(`${first}:${second}`)}`);
    setFirst("");
    setSecond("");
    props.onDone();
  }
  return (
    <main class="login">
      <form class="card" onSubmit={submit}>
        <h1>Sign in</h1>
        <p class="soft">This broker asks who you are. What you enter stays in the memory of this page.</p>
        <div class="field">
          <label for="kind">By</label>
          <select id="kind" value={kind} onChange={(event) => setKind(event.currentTarget.value)}>
            <option value="token">token</option>
            <option value="basic">name and password</option>
          </select>
        </div>
        <div class="field">
          <label for="first">{kind === "token" ? "Token" : "Name"}</label>
          {kind === "token" ? (
            <input id="first" type="password" autocomplete="off" value={first} required onInput={(event) => setFirst(event.currentTarget.value)} />
          ) : (
            <input id="first" type="text" autocomplete="off" value={first} required onInput={(event) => setFirst(event.currentTarget.value)} />
          )}
        </div>
        {kind === "basic" && (
          <div class="field">
            <label for="second">Password</label>
            <input id="second" type="password" autocomplete="off" value={second} onInput={(event) => setSecond(event.currentTarget.value)} />
          </div>
        )}
        {props.reason && <Note tone="bad">{props.reason}</Note>}
        <button type="submit" class="primary">
          Sign in
        </button>
      </form>
    </main>
  );
}

function Page(props: { path: string[]; session: Session }) {
  const [page, ...rest] = props.path;
  switch (page) {
    case "":
    case "overview":
      return <Overview session={props.session} />;
    case "topics":
      return <Topics />;
    case "topic": {
      const [domain, tenant, namespace, local, tab] = rest;
      const topic = { domain, tenant, namespace, local };
      return <TopicPage key={rest.slice(0, 4).join("/")} topic={topic} tab={tab ?? ""} />;
    }
    case "tenants":
      return <Tenants session={props.session} />;
    case "namespace":
      return <NamespacePage key={rest.join("/")} tenant={rest[0]} namespace={rest[1]} />;
    case "clients":
      return <Clients />;
    case "brokers":
      return <Brokers />;
    case "configuration":
      return <Configuration />;
    case "transactions":
      return <Transactions />;
    case "rest":
      return <Rest />;
    case "reports":
      return <Reports />;
    default:
      return <Note tone="bad">There is no page {page}.</Note>;
  }
}

function App() {
  const path = usePath();
  const [session, setSession] = useState<Session>();
  const [refusal, setRefusal] = useState<string>();
  const [problem, setProblem] = useState("");
  const [wasAsked, setWasAsked] = useState(false);

  function open(): void {
    setRefusal(undefined);
    setProblem("");
    get<Session>("/console/api/session")
      .then(setSession)
      .catch((error: unknown) => {
        if (!(error instanceof Refused && error.status === 401)) setProblem(String(error));
      });
  }

  useEffect(() => {
    whenUnauthenticated((reason) => {
      setSession(undefined);
      setRefusal(reason);
    });
    open();
  }, []);

  if (refusal !== undefined)
    return (
      <Login
        reason={wasAsked ? refusal : ""}
        onDone={() => {
          setWasAsked(true);
          open();
        }}
      />
    );
  if (!session) return <main>{problem ? <Note tone="bad">{problem}</Note> : <p class="empty">Loading…</p>}</main>;
  const active = path[0] === "topic" ? "topics" : path[0] === "namespace" ? "tenants" : path[0] || "overview";
  return (
    <div class="frame">
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>
        Skip to the content
      </a>
      <header class="side">
        <a class="brand" href="#/overview">
          <img src="/console/icon.svg" alt="" /> Magnetar
        </a>
        <nav aria-label="Pages">
          {PAGES.filter(([, , isForSuper]) => session.isSuper || !isForSuper).map(([id, label, , sign]) => (
            <a key={id} href={`#/${id}`} aria-current={active === id ? "page" : undefined}>
              <svg class="sign" viewBox="0 0 20 20" aria-hidden="true">
                <path d={sign} />
              </svg>
              {label}
            </a>
          ))}
        </nav>
        <div class="foot">
          <Theme />
          <span>
            {session.cluster} · {session.version}
          </span>
          {session.role && <span>You are {session.role}</span>}
          {session.isAuthenticationEnabled && (
            <button
              type="button"
              class="small"
              onClick={() => {
                setCredential(null);
                setSession(undefined);
                setWasAsked(false);
                setRefusal("");
              }}
            >
              Sign out
            </button>
          )}
        </div>
      </header>
      <main id="main" tabIndex={-1}>
        <Page path={path} session={session} />
      </main>
    </div>
  );
}

render(<App />, document.getElementById("app")!);
