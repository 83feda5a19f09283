package app

import (
	"fmt"
	"path/filepath"
	"text/template"

	"github.com/weft-automation/weft/internal/local/client"
)

const greeting = `
Weft is running.

  API          {{.URL}}
  Docs         {{.URL}}/docs
  Settings     {{.URL}}/settings ({{if .Known}}adminEmail and adminPassword of the credentials sign in{{else}}{{.Owner}} signs in with the password that was set; weft admin password sets another{{end}})
  Operations   {{.Ops}}
  Demo         http://{{.Demo}} (an upstream to call)
{{- if .Chain}}
  Chain        http://{{.Chain}} (an EVM node, JSON-RPC; workflows name it {{.ChainVariable}})
{{- end}}
  Credentials  {{.Credentials}}
{{- range .Open}}
  WARNING      components and callbacks may reach {{.}}, plain http included
{{- end}}

Execute a component, signed:

  {{.Program}} call RANDOM_UUID --wait 15s --credentials {{.Credentials}}

  {{.Program}} call API_CALL --config '{"apiUrl":"http://{{.Demo}}/prices/eth","method":"GET"}' --input '{"headers":{}}' --stream --credentials {{.Credentials}}

{{- if .FanOut}}

Run an example workflow, and watch it:

  {{.Program}} workflows run fanOut --watch --credentials {{.Credentials}}
{{- end}}
{{- if .Approval}}

  {{.Program}} workflows run approval --watch --input '{"amount":"1000"}' --credentials {{.Credentials}}

which waits for its signal, from a second shell:

  {{.Program}} workflows signal RUN approved --payload '{"by":"ada"}' --credentials {{.Credentials}}
{{- end}}
{{- if .ChainWatch}}

Pay on the chain, and wait until the payment is confirmed:

  {{.Program}} workflows run chainWatch --watch --credentials {{.Credentials}}
{{- end}}

{{- if .Payout}}

Build, sign, send and await your own payments:

  {{.Program}} workflows run payout --watch --input '{"recipients":[{"to":"0x70997970C51812dc3A010C7d01b50e0d17dc79C8","amount":"0.25"}]}' --credentials {{.Credentials}}
{{- end}}

See what else there is to build with (also at {{.URL}}/docs/components):

  {{.Program}} components --credentials {{.Credentials}}

or call with nothing of ours, in Node:

  node -e 'const c=require("{{.Credentials}}"),k=require("crypto"),b=JSON.stringify({module:"RANDOM_UUID",input:{},config:{},waitForMs:15000}),t=""+Math.floor(Date.now()/1e3),s=k.sign(null,"POST|/v1/sdk/components|"+t+"|"+b,{key:Buffer.from(c.apiSecret,"base64"),format:"der",type:"pkcs8"}).toString("base64");fetch(c.baseUrl+"/v1/sdk/components",{method:"POST",body:b,headers:{"content-type":"application/json","x-api-key":c.apiKey,"x-sdk-timestamp":t,"x-sdk-signature":s}}).then(r=>r.json()).then(console.log)'

Ctrl-C stops it.
`

// printWelcome prints addresses, credentials and commands to try.
func (dev DevConfig) printWelcome(a *App, local localServices) {
	credentials, err := filepath.Abs(filepath.Join(dev.DataDir, CredentialsFile))
	if err != nil {
		credentials = filepath.Join(dev.DataDir, CredentialsFile)
	}
	c, _ := client.ReadCredentials(credentials)
	text, err := template.New("greeting").Parse(greeting) // parsed here because only weft dev prints it
	if err == nil {
		err = text.Execute(dev.Stdout, map[string]any{
			"URL": a.URL(), "Ops": a.OpsURL(), "Demo": local.demo, "Credentials": credentials, "Program": dev.Program, "Open": dev.AllowNetworks,
			"FanOut": named(c, "fanOut"), "Approval": named(c, "approval"),
			"Chain": local.chain, "ChainVariable": "{{env." + chainVariable + "}}", "ChainWatch": named(c, "chainWatch"), "Payout": named(c, "payout"),
			"Known": c.AdminPassword != "", "Owner": c.AdminEmail,
		})
	}
	if err != nil {
		fmt.Fprintln(dev.Stdout, "Weft is running at", a.URL())
	}
}

// named reports whether the credentials name the workflow.
func named(c client.Credentials, workflow string) bool {
	_, named := c.Workflows[workflow]
	return named
}
