import { useState } from "preact/hooks";
import { get, post, put, remove } from "./api";
import type { Session } from "./app";
import { Policies } from "./policies";
import { Topics } from "./topics";
import { Card, Dialog, Field, Note, Table, useGet, useRights } from "./ui";

export function Tenants(props: { session: Session }) {
  const { value, problem, reload } = useGet<Record<string, string[]>>("/console/api/tenants");
  const rights = useRights("");
  const [asked, setAsked] = useState<{ what: "tenant" } | { what: "namespace"; tenant: string }>();
  const [name, setName] = useState("");
  async function create(): Promise<void> {
    if (asked?.what === "tenant") {
      const clusters = (await get<string[]>("/admin/v2/clusters")).filter((each) => each !== "global");
      await put(`/admin/v2/tenants/${encodeURIComponent(name)}`, { adminRoles: [], allowedClusters: clusters });
    } else if (asked) await put(`/admin/v2/namespaces/${encodeURIComponent(asked.tenant)}/${encodeURIComponent(name)}`);
    reload();
  }
  return (
    <>
      <div class="head">
        <h1>Tenants</h1>
        <div class="actions">
          {rights.has("tenants.create") && (
            <button type="button" onClick={() => { setName(""); setAsked({ what: "tenant" }); }}>
              New tenant
            </button>
          )}
        </div>
      </div>
      {problem && <Note tone="bad">{problem}</Note>}
      <div class="grid">
        {Object.entries(value ?? {}).map(([tenant, namespaces]) => (
          <Card
            key={tenant}
            title={tenant}
            actions={
              props.session.isSuper && (
                <button type="button" class="small" onClick={() => { setName(""); setAsked({ what: "namespace", tenant }); }}>
                  New namespace in {tenant}
                </button>
              )
            }
          >
            <ul class="plain">
              {namespaces.map((each) => (
                <li key={each}>
                  <a href={`#/namespace/${each}`}>{each}</a>
                </li>
              ))}
            </ul>
            {namespaces.length === 0 && <p class="empty">No namespace.</p>}
          </Card>
        ))}
      </div>
      {asked && (
        <Dialog
          title={asked.what === "tenant" ? "New tenant" : `New namespace in ${asked.tenant}`}
          confirm="Create"
          isReady={/^[\w.=:-]+$/.test(name)}
          onConfirm={create}
          onClose={() => setAsked(undefined)}
        >
          <Field label="Name">{(id) => <input id={id} value={name} onInput={(event) => setName(event.currentTarget.value)} />}</Field>
        </Dialog>
      )}
    </>
  );
}

export function NamespacePage(props: { tenant: string; namespace: string }) {
  const name = `${props.tenant}/${props.namespace}`;
  const path = `/admin/v2/namespaces/${encodeURIComponent(props.tenant)}/${encodeURIComponent(props.namespace)}`;
  const rights = useRights(`namespace=${encodeURIComponent(name)}`);
  const grants = useGet<Record<string, string[]>>(rights.has("namespaces.permissions") ? `${path}/permissions` : null);
  const [isGranting, setGranting] = useState(false);
  const [isCreating, setCreating] = useState(false);
  const [revoked, setRevoked] = useState<string>();
  const [role, setRole] = useState("");
  const [actions, setActions] = useState("produce,consume");
  const [topic, setTopic] = useState("");
  const [segments, setSegments] = useState(1);
  return (
    <>
      <div class="head">
        <h1>{name}</h1>
        <div class="actions">
          {rights.has("scalable_topics.create") && (
            <button type="button" onClick={() => setCreating(true)}>
              New scalable topic
            </button>
          )}
        </div>
      </div>
      <div class="grid">
        {grants.value && (
          <Card
            title="Grants"
            actions={
              rights.has("namespaces.grant") && (
                <button type="button" class="small" onClick={() => setGranting(true)}>
                  Grant
                </button>
              )
            }
          >
            <Table
              label="Grants"
              rows={Object.entries(grants.value)}
              keyOf={([each]) => each}
              empty="No role has a grant here."
              columns={[
                { name: "Role", show: ([each]) => each },
                { name: "May", show: ([, may]) => may.join(", ") },
                {
                  name: "Actions",
                  show: ([each]) =>
                    rights.has("namespaces.revoke") && (
                      <button type="button" class="small" onClick={() => setRevoked(each)}>
                        Revoke {each}
                      </button>
                    ),
                },
              ]}
            />
          </Card>
        )}
      </div>
      <Topics namespace={name} />
      {rights.has("namespace_policies.get_retention") && (
        <Policies of="namespace" from={`/console/api/namespace/${encodeURIComponent(props.tenant)}/${encodeURIComponent(props.namespace)}/policies`} base={path} mayEdit={rights.has("namespace_policies.set_retention")} />
      )}
      {isGranting && (
        <Dialog
          title={`Grant on ${name}`}
          confirm="Grant"
          isReady={role !== ""}
          onConfirm={async () => {
            await post(`${path}/permissions/${encodeURIComponent(role)}`, actions.split(",").map((each) => each.trim()));
            grants.reload();
          }}
          onClose={() => setGranting(false)}
        >
          <Field label="Role">{(id) => <input id={id} value={role} onInput={(event) => setRole(event.currentTarget.value)} />}</Field>
          <Field label="Actions" hint="produce, consume">
            {(id) => <input id={id} value={actions} onInput={(event) => setActions(event.currentTarget.value)} />}
          </Field>
        </Dialog>
      )}
      {revoked !== undefined && (
        <Dialog
          title={`Revoke the grant of ${revoked}`}
          confirm="Revoke"
          isDangerous
          onConfirm={async () => {
            await remove(`${path}/permissions/${encodeURIComponent(revoked)}`);
            grants.reload();
          }}
          onClose={() => setRevoked(undefined)}
        >
          <Note tone="warn">
            What will happen: <strong>{revoked}</strong> may no longer {(grants.value?.[revoked] ?? []).join(", ")} on the topics of {name}, unless a topic has a grant of its own.
          </Note>
        </Dialog>
      )}
      {isCreating && (
        <Dialog
          title={`New scalable topic in ${name}`}
          confirm="Create"
          isReady={topic !== ""}
          onConfirm={async () => {
            await put(`/admin/v2/scalable/${name}/${encodeURIComponent(topic)}?numInitialSegments=${segments}`);
            location.hash = `#/topic/topic/${name}/${encodeURIComponent(topic)}`;
          }}
          onClose={() => setCreating(false)}
        >
          <Field label="Name">{(id) => <input id={id} value={topic} onInput={(event) => setTopic(event.currentTarget.value)} />}</Field>
          <Field label="Initial segments" hint="The topic splits and merges by load afterwards.">
            {(id) => <input id={id} type="number" min={1} max={64} value={segments} onInput={(event) => setSegments(event.currentTarget.valueAsNumber || 1)} />}
          </Field>
        </Dialog>
      )}
    </>
  );
}
