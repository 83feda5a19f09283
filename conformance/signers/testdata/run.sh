# Signs what comes by lines: method, path, timestamp and body in base64, with tabs between.
set -euo pipefail
source ./weft_curl.sh
while IFS=$'\t' read -r method path timestamp body; do
  printf %s "$body" | openssl base64 -d -A >body
  weft_signature "$method" "$path" "$timestamp" body
  echo
done
