# Sends two signed requests and prints what is answered, a line each.
set -euo pipefail
bash ./weft_curl.sh GET '/v1/sdk/components?limit=1' '' --include --http1.1 | tr -d '\r\n' | sed 's/^HTTP[^ ]* //'
echo
printf %s '{"module":"HASH","input":{"data":"é"},"config":{},"waitForMs":15000}' |
  bash ./weft_curl.sh POST /v1/sdk/components - --include --http1.1 | tr -d '\r\n' | sed 's/^HTTP[^ ]* //'
echo
