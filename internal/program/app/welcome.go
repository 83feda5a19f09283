package app

import (
	"fmt"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/weft-automation/weft/internal/local/client"
)

// greeting is what weft dev prints when it is ready: at most eight lines.
const greeting = `{{define "short"}}Weft {{.Version}} is ready.
{{if .Link}}
  Open      {{.Link}}   signed in, works once within ten minutes
{{- end}}
  API       {{printf "%-35s" .URL}} docs at /docs
{{- if .Proxy}}
  curl      {{printf "%-35s" .Proxy}} signs your requests for you
{{- else if .ProxyBusy}}
  curl      no signing proxy: {{.ProxyBusy}} is in use; choose another address with --proxy-addr
{{- end}}
  Try       {{printf "%-35s" .Call}}
{{- if .FanOut}} then: {{.Program}} run fanOut{{.Flags}}{{end}}
{{- if .Open}}
  WARNING   components and callbacks may reach {{.Open}}, plain http included
{{- end}}
Ctrl-C stops it. Data and credentials: {{.Data}}/
{{- if not .Verbose}}   More: {{.Program}} dev --verbose{{end}}
{{end}}`

// more is what weft dev --verbose prints in addition.
const more = `{{define "more"}}
  Settings     {{.URL}}/settings ({{if .Known}}adminEmail and adminPassword of the credentials sign in{{else}}{{.Owner}} signs in with the password that was set; weft admin password sets another{{end}})
  Operations   {{.Ops}}
  Demo         http://{{.Demo}} (an upstream to call)
{{- if .Chain}}
  Chain        http://{{.Chain}} (an EVM node, JSON-RPC; workflows name it {{.ChainVariable}})
{{- end}}
  Credentials  {{.Credentials}}

Call the demo upstream, and show each change:

  {{.Program}} call API_CALL --config '{"apiUrl":"http://{{.Demo}}/prices/eth","method":"GET"}' --stream{{.Flags}}

{{- if .FanOut}}

Run an example workflow, and watch it:

  {{.Program}} run fanOut --watch{{.Flags}}
{{- end}}
{{- if .Approval}}

  {{.Program}} run approval --watch --input '{"amount":"1000"}'{{.Flags}}

which waits for its signal, from a second shell:

  {{.Program}} runs signal RUN approved --payload '{"by":"ada"}'{{.Flags}}
{{- end}}
{{- if .ChainWatch}}

Pay on the chain, and wait until the payment is confirmed:

  {{.Program}} run chainWatch --watch{{.Flags}}
{{- end}}

{{- if .Payout}}

Build, sign, send and await your own payments:

  {{.Program}} run payout --watch --input '{"recipients":[{"to":"0x70997970C51812dc3A010C7d01b50e0d17dc79C8","amount":"0.25"}]}'{{.Flags}}
{{- end}}

See what else there is to build with (also at {{.URL}}/docs/components):

  {{.Program}} components{{.Flags}}

or call with nothing of ours, in Node:

  node -e 'const c=require("{{.Credentials}}"),k=require("crypto"),b=JSON.stringify({module:"RANDOM_UUID",input:{},config:{},waitForMs:15000}),t=""+Math.floor(Date.now()/1e3),s=k.sign(null,"POST|/v1/sdk/components|"+t+"|"+b,{key:Buffer.from(c.apiSecret,"base64"),format:"der",type:"pkcs8"}).toString("base64");fetch(c.baseUrl+"/v1/sdk/components",{method:"POST",body:b,headers:{"content-type":"application/json","x-api-key":c.apiKey,"x-sdk-timestamp":t,"x-sdk-signature":s}}).then(r=>r.json()).then(console.log)'
{{end}}`

// printWelcome prints addresses and a command to try, and with dev.Verbose everything else.
func (dev DevConfig) printWelcome(a *App, local localServices) {
	dev.step("")
	credentials, err := filepath.Abs(filepath.Join(dev.DataDir, CredentialsFile))
	if err != nil {
		credentials = filepath.Join(dev.DataDir, CredentialsFile)
	}
	flags := ""
	if filepath.Clean(dev.DataDir) != ".weft" { // where commands don't look for the credentials
		flags = " --credentials " + credentials
	}
	c, _ := client.ReadCredentials(credentials)
	signing, busy := "", ""
	if local.proxy != nil {
		signing = "http://" + local.proxy.Addr().String()
	} else if local.proxyBusy {
		busy = dev.ProxyAddr
	}
	var open []string
	for _, network := range dev.AllowNetworks {
		open = append(open, network.String())
	}
	values := map[string]any{
		"Version": Version, "URL": a.URL(), "Ops": a.OpsURL(), "Link": local.open, "Demo": local.demo, "Proxy": signing, "ProxyBusy": busy, "Data": filepath.Clean(dev.DataDir), "Credentials": credentials,
		"Program": dev.Program, "Flags": flags, "Call": dev.Program + " call RANDOM_UUID" + flags, "Open": strings.Join(open, ", "), "Verbose": dev.Verbose,
		"FanOut": named(c, "fanOut"), "Approval": named(c, "approval"),
		"Chain": local.chain, "ChainVariable": "{{env." + chainVariable + "}}", "ChainWatch": named(c, "chainWatch"), "Payout": named(c, "payout"),
		"Known": c.AdminPassword != "", "Owner": c.AdminEmail,
	}
	text, err := template.New("").Parse(greeting + more) // parsed here because only weft dev prints it
	if err == nil {
		err = text.ExecuteTemplate(dev.Stdout, "short", values)
	}
	if err == nil && dev.Verbose {
		err = text.ExecuteTemplate(dev.Stdout, "more", values)
	}
	if err != nil {
		fmt.Fprintln(dev.Stdout, "Weft is ready at", a.URL())
	}
}

// named reports whether the credentials name the workflow.
func named(c client.Credentials, workflow string) bool {
	_, named := c.Workflows[workflow]
	return named
}

// step reports the next step of the start, or with "" that the start is over.
func (dev DevConfig) step(name string) {
	if dev.Progress != nil {
		dev.Progress(name)
	}
}
