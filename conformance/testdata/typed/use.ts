// What somebody writes with the client: held to its types by the compiler, then run.
import { Weft, type Execute, type GetEvmAccountBalanceOutput, type GetEvmGasPriceOutput } from './client.js'

export async function use(execute: Execute): Promise<Record<string, string>> {
  const weft = new Weft(execute)
  const drawn = await weft.randomUuid({})
  const hashed = await weft.hash({ data: 'hello', algorithm: 'keccak256' })
  const random = await weft.randomHex({ bytes: 4 })
  const called = () => weft.apiCall({ headers: {} }, { apiUrl: 'https://api.example.com', method: 'GET' })
  const half = (account: GetEvmAccountBalanceOutput): bigint => account.balance / 2n
  const twice = (fees: Pick<GetEvmGasPriceOutput, 'baseFeePerGas' | 'gasPrice'>): bigint => (fees.baseFeePerGas ?? fees.gasPrice) * 2n
  twice({ gasPrice: 1n, baseFeePerGas: null })
  return { uuid: drawn.uuid, digest: hashed.digest, hex: random.hex, half: half({ balance: 7n }).toString(), called: typeof called }
}

// Each of these is a mistake, and the compiler says so.
export async function mistakes(weft: Weft): Promise<void> {
  // @ts-expect-error data is required
  await weft.hash({})
  // @ts-expect-error there is no such algorithm
  await weft.hash({ data: 'hello', algorithm: 'md5' })
  // @ts-expect-error there is no such field
  await weft.randomHex({ byte: 4 })
  // @ts-expect-error the config has required fields
  await weft.apiCall({ headers: {} })
  // @ts-expect-error a digest is a text
  const digest: number = (await weft.hash({ data: 'hello' })).digest
  // @ts-expect-error IF is executed inside a workflow only
  await weft.if({}, { expression: 'true' })
  // @ts-expect-error a chain may have no base fee
  const base: bigint = (await weft.getEvmGasPrice({ jsonRpcUrl: 'https://rpc.example.com' })).baseFeePerGas
  void [digest, base]
}
