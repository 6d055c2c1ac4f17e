import { useState } from "preact/hooks";
import { post } from "./api";
import { count, moment, whole } from "./format";
import { Badge, Card, Dialog, Field, Json, Note, Table, useGet } from "./ui";

interface Stats {
  state: string;
  ongoingTxnSize: number;
  lowWaterMark: number;
  leastSigBits: number;
}

interface Open {
  txnId: string;
  status: string;
  openTimestamp: number;
  timeoutAt: number;
  owner?: string;
  producedPartitions: Record<string, unknown>;
  ackedPartitions: Record<string, unknown>;
}

/** Coordinators, and transactions that have been open for longer than a time; one can be aborted. */
export function Transactions() {
  const [seconds, setSeconds] = useState(0);
  const coordinators = useGet<{ id: number; brokerServiceUrl: string }[]>("/admin/v3/transactions/coordinators");
  const stats = useGet<Record<string, Stats>>("/admin/v3/transactions/coordinatorStats");
  const slow = useGet<Record<string, Open>>(`/admin/v3/transactions/slowTransactions/${Math.max(0, Math.round(seconds * 1000))}`);
  const [chosen, setChosen] = useState<string>();
  const open = Object.entries(slow.value ?? {}).sort(([, left], [, right]) => left.openTimestamp - right.openTimestamp);
  const shown = chosen === undefined ? undefined : slow.value?.[chosen];
  return (
    <>
      <div class="head">
        <h1>Transactions</h1>
        <span class="soft">{count(open.length, "transaction")} open</span>
        <div class="actions">
          <button
            type="button"
            onClick={() => {
              stats.reload();
              slow.reload();
            }}
          >
            Look again
          </button>
        </div>
      </div>
      {coordinators.problem && <Note tone="bad">{coordinators.problem}</Note>}
      <div class="grid">
        <Card title="Open transactions" wide>
          <Field label="Open for at least, in seconds">{(id) => <input id={id} type="number" min="0" value={seconds} onChange={(event) => setSeconds(event.currentTarget.valueAsNumber || 0)} />}</Field>
          {slow.problem && <Note tone="bad">{slow.problem}</Note>}
          <Table
            label="Open transactions"
            rows={open}
            keyOf={([id]) => id}
            empty="None is open."
            columns={[
              { name: "Transaction", show: ([id]) => <code>{id}</code> },
              { name: "Status", show: ([, each]) => <Badge>{each.status}</Badge> },
              { name: "Since", show: ([, each]) => moment(each.openTimestamp) },
              { name: "Topics", isNumber: true, show: ([, each]) => whole(Object.keys(each.producedPartitions ?? {}).length) },
              { name: "Acknowledges on", isNumber: true, show: ([, each]) => whole(Object.keys(each.ackedPartitions ?? {}).length) },
              { name: "Owner", show: ([, each]) => each.owner || "—" },
              {
                name: "Actions",
                show: ([id]) => (
                  <button type="button" class="small" onClick={() => setChosen(id)}>
                    Look at <span class="soft">{id}</span>
                  </button>
                ),
              },
            ]}
          />
        </Card>
        <Card title="Coordinators" wide>
          <Table
            label="Coordinators"
            rows={coordinators.value ?? []}
            keyOf={(each) => String(each.id)}
            empty="Transactions are switched off: transactionCoordinatorEnabled=false."
            columns={[
              { name: "Coordinator", isNumber: true, show: (each) => each.id },
              { name: "Broker", show: (each) => each.brokerServiceUrl },
              { name: "State", show: (each) => stats.value?.[each.id]?.state ?? "—" },
              { name: "Open", isNumber: true, show: (each) => whole(stats.value?.[each.id]?.ongoingTxnSize ?? 0) },
            ]}
          />
        </Card>
      </div>
      {chosen !== undefined && shown && (
        <Dialog
          title={`Transaction ${chosen}`}
          confirm="Abort it"
          isDangerous
          onConfirm={async () => {
            const [most, least] = chosen.replace(/[()]/g, "").split(",");
            await post(`/admin/v3/transactions/abortTransaction/${most.trim()}/${least.trim()}`);
            slow.reload();
          }}
          onClose={() => setChosen(undefined)}
        >
          <Json value={shown} />
          <Note tone="warn">
            What will happen if you abort it: no consumer ever sees what it published, what it acknowledged is delivered again, and its client is refused. The broker's log keeps who did it.
          </Note>
        </Dialog>
      )}
    </>
  );
}
