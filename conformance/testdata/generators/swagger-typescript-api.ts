import { Api, type HttpResponse, type Problem } from './client/api'
import { tell } from './story'
import { baseUrl, transport } from './transport'

const { v1: weft } = new Api({ baseUrl, customFetch: transport })

void tell({
  modules: async () => (await weft.listSystemComponents()).data.map((component) => component.module),
  execute: async () => (await weft.executeComponent({ module: 'RANDOM_UUID', input: {}, config: {} })).data,
  execution: async (executionId) => (await weft.getComponentExecution(executionId)).data,
  async statuses(executionId) {
    const answer = await weft.streamComponentExecution(executionId)
    return [...(await answer.text()).matchAll(/^data: (.*)$/gm)].map(([, event]) => (JSON.parse(event ?? '') as typeof answer.data).status)
  },
  async saveWorkflow() {
    const saved = await weft.createWorkflow({
      name: 'swagger-typescript-api',
      components: [{ id: 'start', module: 'ON_SCHEDULE', config: { cron: '0 0 1 1 *' } }, { id: 'draw', module: 'RANDOM_UUID' }],
      sequenceEdges: [{ id: 'first', from: 'start', to: 'draw' }],
    })
    return saved.data.id
  },
  startRun: async (workflowId) => (await weft.triggerWorkflow(workflowId)).data.runId,
  run: async (runId) => (await weft.getWorkflowRun(runId)).data,
  runs: async () => (await weft.listWorkflowRuns()).data.data.map((run) => run.id),
  createSchedule: async (workflowId) => (await weft.createSchedule({ workflowId })).data,
  async missing(executionId) {
    try {
      return (await weft.getComponentExecution(executionId)).data.status
    } catch (answer) {
      return (answer as HttpResponse<unknown, Problem>).error.code
    }
  },
})
