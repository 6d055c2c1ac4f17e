import { useState } from "preact/hooks";
import { post, remove, topicLink } from "./api";
import { bytes, count, moment, short, whole } from "./format";
import { Badge, Card, Dialog, Field, Note, Stat, Table, Value, useGet } from "./ui";

interface Attached {
  topic: string;
  name: string;
  subscription?: string;
}

interface Client {
  address: string;
  version: string;
  protocolVersion: number;
  role?: string;
  isScalable: boolean;
  producers: Attached[];
  consumers: Attached[];
}

const OPEN_MAX = 8;

function link(topic: string) {
  const shown = topic.startsWith("segment://") ? topic.replace(/^segment:/, "topic:").replace(/\/[^/]+$/, "") : topic;
  return <a href={topicLink(shown)}>{topic}</a>;
}

export function Clients() {
  const { value, problem, reload } = useGet<Client[]>("/console/api/clients");
  const kinds = new Map<string, { count: number; isScalable: boolean }>();
  for (const client of value ?? []) {
    const known = kinds.get(client.version) ?? { count: 0, isScalable: client.isScalable };
    kinds.set(client.version, { ...known, count: known.count + 1 });
  }
  const old = (value ?? []).filter((client) => !client.isScalable);
  return (
    <>
      <div class="head">
        <h1>Clients</h1>
        <span class="soft">{count(value?.length ?? 0, "connection")}</span>
        <div class="actions">
          <button type="button" onClick={reload}>
            Look again
          </button>
        </div>
      </div>
      {problem && <Note tone="bad">{problem}</Note>}
      {old.length > 0 && <Note tone="warn">{count(old.length, "connection")} of clients that cannot follow a topic when it becomes scalable.</Note>}
      <div class="grid">
        <Card title="By version" wide>
          <Table
            label="Versions"
            rows={[...kinds.entries()].sort()}
            keyOf={([version]) => version}
            empty="Nobody is connected."
            columns={[
              { name: "Client", show: ([version]) => version || "unnamed" },
              { name: "Kind", show: ([, each]) => (each.isScalable ? <Badge tone="good">V5</Badge> : <Badge tone="warn">v4</Badge>) },
              { name: "Connections", isNumber: true, show: ([, each]) => whole(each.count) },
            ]}
          />
        </Card>
        <Card title="Connections" wide>
          <Table
            label="Connections"
            rows={value ?? []}
            keyOf={(client) => client.address}
            empty="Nobody is connected."
            columns={[
              { name: "Address", show: (client) => <code class="key">{client.address.replace(/^\//, "")}</code> },
              { name: "Client", show: (client) => <>{client.version || "unnamed"} {client.isScalable ? <Badge tone="good">V5</Badge> : <Badge tone="warn">v4</Badge>}</> },
              { name: "Role", show: (client) => client.role ?? "—" },
              {
                name: "Attached",
                show: (client) => (
                  <details open={client.producers.length + client.consumers.length <= OPEN_MAX}>
                    <summary>
                      {count(client.producers.length, "producer")}, {count(client.consumers.length, "consumer")}
                    </summary>
                    <ul class="plain">
                      {client.producers.slice(0, 20).map((each) => (
                        <li key={`p${each.topic}${each.name}`}>
                          producer <strong>{each.name}</strong> of {link(each.topic)}
                        </li>
                      ))}
                      {client.consumers.slice(0, 20).map((each) => (
                        <li key={`c${each.topic}${each.name}${each.subscription}`}>
                          consumer <strong>{each.name}</strong> of {each.subscription} on {link(each.topic)}
                        </li>
                      ))}
                      {client.producers.length + client.consumers.length > 40 && <li>… and more</li>}
                    </ul>
                  </details>
                ),
              },
            ]}
          />
        </Card>
      </div>
    </>
  );
}

interface Report {
  brokerId: string;
  webServiceUrl: string;
  pulsarServiceUrl: string;
  brokerVersionString: string;
  startTimestamp: number;
  numTopics: number;
  numProducers: number;
  numConsumers: number;
  msgRateIn: number;
  msgRateOut: number;
  msgThroughputIn: number;
  msgThroughputOut: number;
  bundles: string[];
}

export function Brokers() {
  const brokers = useGet<string[]>("/admin/v2/brokers");
  const leader = useGet<{ brokerId: string }>("/admin/v2/brokers/leaderBroker");
  const report = useGet<Report>("/admin/v2/broker-stats/load-report");
  const overview = useGet<{ brokerId: string; brokers?: Record<string, { bookies?: Record<string, Record<string, number>> }> }>("/console/api/overview");
  const bookies = overview.value?.brokers?.[overview.value.brokerId]?.bookies ?? {};
  return (
    <>
      <div class="head">
        <h1>Brokers</h1>
      </div>
      {brokers.problem && <Note tone="bad">{brokers.problem}</Note>}
      <div class="grid">
        <Card title="Of this cluster">
          <Table
            label="Brokers"
            rows={brokers.value ?? []}
            keyOf={(each) => each}
            columns={[
              { name: "Broker", show: (each) => <a href={each === report.value?.brokerId ? "#/brokers" : `${location.protocol}//${each}/console/#/brokers`}>{each}</a> },
              {
                name: "Part",
                show: (each) => (
                  <>
                    {each === leader.value?.brokerId && <Badge tone="accent">leader</Badge>} {each === report.value?.brokerId && <Badge>this one</Badge>}
                  </>
                ),
              },
            ]}
          />
        </Card>
        {report.value && (
          <Card title={`This broker, ${report.value.brokerId}`}>
            <dl class="stats">
              <Stat label="Version" value={report.value.brokerVersionString} />
              <Stat label="Since" value={moment(report.value.startTimestamp)} />
              <Stat label="Topics loaded" value={whole(report.value.numTopics)} />
              <Stat label="Producers" value={whole(report.value.numProducers)} />
              <Stat label="Consumers" value={whole(report.value.numConsumers)} />
              <Stat label="In /s" value={short(report.value.msgRateIn)} detail={`${bytes(report.value.msgThroughputIn)}/s`} />
              <Stat label="Out /s" value={short(report.value.msgRateOut)} detail={`${bytes(report.value.msgThroughputOut)}/s`} />
            </dl>
            <p class="soft">
              Clients: <code>{report.value.pulsarServiceUrl}</code>
            </p>
            <h3>Bundles it serves</h3>
            <ul class="plain">
              {report.value.bundles.map((each) => (
                <li key={each}>
                  <code>{each}</code>
                </li>
              ))}
            </ul>
          </Card>
        )}
        {Object.keys(bookies).length > 0 && (
          <Card title="Bookies, as this broker sees them" wide>
            <Table
              label="Bookies"
              rows={Object.entries(bookies).sort()}
              keyOf={([name]) => name}
              columns={[
                { name: "Bookie", show: ([name]) => <code>{name}</code> },
                ...Object.keys(Object.values(bookies)[0]).map((field) => ({ name: field.replaceAll("_", " "), isNumber: true, show: ([, counts]: [string, Record<string, number>]) => whole(counts[field] ?? 0) })),
              ]}
            />
          </Card>
        )}
      </div>
    </>
  );
}

interface Key {
  name: string;
  value: string;
  default: string;
  isDynamic: boolean;
  expected: string;
  meaning: string;
}

export function Configuration() {
  const { value, problem, reload } = useGet<Key[]>("/console/api/configuration");
  const [text, setText] = useState("");
  const [onlyChanged, setOnlyChanged] = useState(false);
  const [edited, setEdited] = useState<Key>();
  const [wanted, setWanted] = useState("");
  const sought = text.toLowerCase();
  const rows = (value ?? []).filter(
    (key) => (!onlyChanged || key.value !== key.default) && (key.name.toLowerCase().includes(sought) || key.meaning.toLowerCase().includes(sought)),
  );
  return (
    <>
      <div class="head">
        <h1>Configuration</h1>
        <span class="soft">{count(rows.length, "key")} that act</span>
      </div>
      {problem && <Note tone="bad">{problem}</Note>}
      <div class="row">
        <div class="field">
          <label for="key">Find</label>
          <input id="key" type="search" value={text} onInput={(event) => setText(event.currentTarget.value)} />
        </div>
        <label class="check">
          <input type="checkbox" checked={onlyChanged} onChange={(event) => setOnlyChanged(event.currentTarget.checked)} /> only those that differ from the default
        </label>
      </div>
      <Card>
        <Table
          label="Keys"
          rows={rows}
          keyOf={(key) => key.name}
          columns={[
            {
              name: "Key",
              show: (key) => (
                <>
                  <code class="key">{key.name}</code>
                  <br />
                  <small>{key.meaning}</small>
                </>
              ),
            },
            {
              name: "Value",
              show: (key) =>
                key.value === key.default ? (
                  <Value value={key.value} />
                ) : (
                  <>
                    <strong>
                      <Value value={key.value} />
                    </strong>
                    <br />
                    <small>
                      default: <Value value={key.default} />
                    </small>
                  </>
                ),
            },
            {
              name: "Actions",
              show: (key) =>
                key.isDynamic && (
                  <button
                    type="button"
                    class="small"
                    onClick={() => {
                      setEdited(key);
                      setWanted(key.value);
                    }}
                  >
                    Change <span class="hidden">{key.name}</span>
                  </button>
                ),
            },
          ]}
        />
      </Card>
      {edited && (
        <Dialog
          title={`Change ${edited.name}`}
          confirm="Set"
          isReady={wanted !== edited.value}
          onConfirm={async () => {
            if (wanted === "") await remove(`/admin/v2/brokers/configuration/${edited.name}`);
            else await post(`/admin/v2/brokers/configuration/${edited.name}/${encodeURIComponent(wanted)}`);
            reload();
          }}
          onClose={() => setEdited(undefined)}
        >
          <p>{edited.meaning}</p>
          <Field label="Value" hint={`${edited.expected}. Empty takes back what was set here.`}>
            {(id) => <input id={id} value={wanted} onInput={(event) => setWanted(event.currentTarget.value)} />}
          </Field>
          <Note>
            What will happen: every broker of the cluster uses <strong>{wanted || "the value of its own configuration"}</strong> instead of <strong>{edited.value || "nothing"}</strong> at once, and after restarts.
          </Note>
        </Dialog>
      )}
    </>
  );
}
