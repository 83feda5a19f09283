#!/usr/bin/env bash
# Signs a request to Weft with openssl (1.1.1 or later) and sends it with curl. This file
# stands alone: copy it.
#
#   export WEFT_URL=http://127.0.0.1:8080 WEFT_API_KEY=ws_... WEFT_API_SECRET=MC4C...
#   ./weft_curl.sh GET '/v1/sdk/components?limit=2'
#   echo -n '{"module":"RANDOM_UUID","input":{},"config":{}}' | ./weft_curl.sh POST /v1/sdk/components -
#   ./weft_curl.sh POST /v1/sdk/components body.json
#
# WEFT_URL may have a path, such as https://example.com/weft, if a proxy removes that path before
# the request reaches Weft. It is sent, but not signed.
#
# The body is a file, - for standard input, or '' for no body. Further arguments are passed to curl.
# If you source this file, it only defines the functions.

# weft_message METHOD PATH TIMESTAMP [FILE] writes the bytes that are signed. PATH is everything
# after the host, the query included, as Weft receives it; an empty body counts as {}.
weft_message() {
  printf '%s|%s|%s|' "$1" "$2" "$3"
  if [ -n "${4:-}" ] && [ -s "$4" ]; then
    cat "$4" # $(cat ...) would remove trailing newlines
  else
    printf '{}'
  fi
}

# weft_signature METHOD PATH TIMESTAMP [FILE] prints the value of X-Sdk-Signature. It signs with
# WEFT_API_SECRET, which is base64 of PKCS#8: PEM without its first and last line. Other users can
# see arguments of a process, so openssl reads the secret from a file that only its owner can read.
weft_signature() (
  set -euo pipefail
  umask 077
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  printf -- '-----BEGIN PRIVATE KEY-----\n%s\n-----END PRIVATE KEY-----\n' "$WEFT_API_SECRET" >"$folder/key"
  weft_message "$@" >"$folder/message"
  openssl pkeyutl -sign -rawin -inkey "$folder/key" -in "$folder/message" -out "$folder/signature"
  openssl base64 -A -in "$folder/signature"
)

# weft_curl METHOD PATH [FILE] [CURL ARGUMENTS...] signs a request and sends it.
weft_curl() (
  set -euo pipefail
  method=$1 path=$2 file=${3:-}
  shift "$(($# < 3 ? $# : 3))"
  arguments=(--silent --show-error --globoff --path-as-is --request "$method")
  if [ "$file" = - ]; then
    file=$(mktemp)
    trap 'rm -f "$file"' EXIT
    cat >"$file"
  elif [ -n "$file" ] && [ ! -r "$file" ]; then
    printf 'weft_curl: cannot read %s\n' "$file" >&2 # otherwise curl would send no body
    return 1
  fi
  if [ -n "$file" ] && [ -s "$file" ]; then
    arguments+=(--header 'Content-Type: application/json' --data-binary "@$file")
  fi
  timestamp=$(date +%s)
  signature=$(weft_signature "$method" "$path" "$timestamp" "$file")
  curl "${arguments[@]}" "$@" \
    --header "X-Api-Key: $WEFT_API_KEY" \
    --header "X-Sdk-Timestamp: $timestamp" \
    --header "X-Sdk-Signature: $signature" \
    "${WEFT_URL%/}$path"
)

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  if [ $# -lt 2 ]; then
    echo "usage: WEFT_URL= WEFT_API_KEY= WEFT_API_SECRET= $0 METHOD PATH [FILE] [CURL ARGUMENTS...]" >&2
    exit 2
  fi
  weft_curl "$@"
fi
