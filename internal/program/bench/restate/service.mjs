// The Restate service that Weft is compared with: a handler with one durable step. PORT is the port
// on which it listens.
import { randomUUID } from "node:crypto";
import { createServer } from "node:http2";
import * as restate from "@restatedev/restate-sdk";

// Node.js before 22 lacks this function, which the SDK uses.
Promise.withResolvers ??= function () {
  let resolve, reject;
  const promise = new this((...functions) => ([resolve, reject] = functions));
  return { promise, resolve, reject };
};

const bench = restate.service({
  name: "bench",
  handlers: { uuid: (ctx) => ctx.run("uuid", () => randomUUID()) },
});
createServer(restate.createEndpointHandler({ services: [bench] })).listen(Number(process.env.PORT), "127.0.0.1");
