import { setConfig } from '@kubb/plugin-client/clients/fetch'
import * as weft from './client'
import { tell } from './story'
import { baseUrl, transport } from './transport'

// The tool's own client calls the fetch of the environment, and names no content type.
const send = globalThis.fetch
globalThis.fetch = (input, init) => (typeof input === 'string' ? transport(input, init) : send(input, init))
setConfig({ baseURL: baseUrl, headers: { 'Content-Type': 'application/json' } })

void tell({
  modules: async () => (await weft.listSystemComponents()).map((component) => component.module),
  execute: () => weft.executeComponent({ module: 'RANDOM_UUID', input: {}, config: {} }),
  execution: (executionId) => weft.getComponentExecution(executionId),
  async saveWorkflow() {
    const saved = await weft.createWorkflow({
      name: 'kubb',
      components: [{ id: 'start', module: 'ON_SCHEDULE', config: { cron: '0 0 1 1 *' } }, { id: 'draw', module: 'RANDOM_UUID' }],
      sequenceEdges: [{ id: 'first', from: 'start', to: 'draw' }],
    })
    return saved.id
  },
  startRun: async (workflowId) => (await weft.triggerWorkflow(workflowId, {})).runId, // its validators require every body
  run: (runId) => weft.getWorkflowRun(runId),
  runs: async () => (await weft.listWorkflowRuns()).data.map((run) => run.id),
  createSchedule: (workflowId) => weft.createSchedule({ workflowId }),
})
