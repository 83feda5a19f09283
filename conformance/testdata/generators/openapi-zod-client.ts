import axios from 'axios'
import { createApiClient } from './client/api'
import { tell } from './story'
import { baseUrl, transport } from './transport'

const axiosInstance = axios.create({ adapter: 'fetch', env: { fetch: transport } })
const weft = createApiClient(baseUrl, { axiosInstance })

void tell({
  modules: async () => (await weft.listSystemComponents()).map((component) => component.module),
  execute: () => weft.executeComponent({ module: 'RANDOM_UUID', input: {}, config: {} }),
  execution: (executionId) => weft.getComponentExecution({ params: { executionId } }),
  async saveWorkflow() {
    const saved = await weft.createWorkflow({
      name: 'openapi-zod-client',
      components: [{ id: 'start', module: 'ON_SCHEDULE', config: { cron: '0 0 1 1 *' } }, { id: 'draw', module: 'RANDOM_UUID' }],
      sequenceEdges: [{ id: 'first', from: 'start', to: 'draw' }],
    })
    return saved.id
  },
  startRun: async (workflowId) => (await weft.triggerWorkflow(undefined, { params: { workflowId } })).runId,
  run: (runId) => weft.getWorkflowRun({ params: { runId } }),
  runs: async () => (await weft.listWorkflowRuns()).data.map((run) => run.id),
  createSchedule: (workflowId) => weft.createSchedule({ workflowId }),
  async missing(executionId) {
    try {
      return (await weft.getComponentExecution({ params: { executionId } })).status
    } catch (error) {
      return axios.isAxiosError<{ code: string }>(error) ? (error.response?.data.code ?? '') : ''
    }
  },
})
