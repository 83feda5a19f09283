import * as weft from './client/api'
import { tell } from './story'
import { transport } from './transport'

// The generated functions call the fetch of the environment with a path of the service.
const send = globalThis.fetch
globalThis.fetch = (input, init) => (typeof input === 'string' ? transport(input, init) : send(input, init))

/** The data of an answer with 200. */
function ok<T extends { status: number; data: unknown }>(answer: T): Extract<T, { status: 200 }>['data'] {
  if (answer.status !== 200) throw new Error(JSON.stringify(answer.data))
  return answer.data as Extract<T, { status: 200 }>['data']
}

void tell({
  modules: async () => ok(await weft.listSystemComponents()).map((component) => component.module),
  execute: async () => ok(await weft.executeComponent({ module: 'RANDOM_UUID', input: {}, config: {} })),
  execution: async (executionId) => ok(await weft.getComponentExecution(executionId)),
  async saveWorkflow() {
    const saved = await weft.createWorkflow({
      name: 'orval',
      components: [{ id: 'start', module: 'ON_SCHEDULE', config: { cron: '0 0 1 1 *' } }, { id: 'draw', module: 'RANDOM_UUID' }],
      sequenceEdges: [{ id: 'first', from: 'start', to: 'draw' }],
    })
    return ok(saved).id
  },
  startRun: async (workflowId) => ok(await weft.triggerWorkflow(workflowId)).runId,
  run: async (runId) => ok(await weft.getWorkflowRun(runId)),
  runs: async () => ok(await weft.listWorkflowRuns()).data.map((run) => run.id),
  createSchedule: async (workflowId) => ok(await weft.createSchedule({ workflowId })),
  async missing(executionId) {
    const answer = await weft.getComponentExecution(executionId)
    return answer.status === 404 ? answer.data.code : `${answer.status}`
  },
})
