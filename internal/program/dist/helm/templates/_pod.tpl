{{- /* Labels of the process .command. */ -}}
{{- define "weft.labels" -}}
app.kubernetes.io/name: weft
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .command }}
{{- end -}}

{{- /* The template of the pods that run the process .command, which fits into a Deployment or Job. */ -}}
{{- define "weft.pod" -}}
metadata:
  labels:
    {{- include "weft.labels" . | nindent 4 }}
spec:
  automountServiceAccountToken: false
  # The defaults of WEFT_DRAIN_DELAY and WEFT_STOP_TIMEOUT, and some seconds to exit.
  terminationGracePeriodSeconds: 150
  {{- if eq .command "migrate" }}
  restartPolicy: OnFailure
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    seccompProfile: {type: RuntimeDefault}
  containers:
    - name: weft
      image: {{ required "image: set it to the image that the Containerfile builds" .root.Values.image | quote }}
      args: [{{ .command }}]
      envFrom:
        - secretRef: {name: {{ .root.Values.secret | quote }}}
      env:
        - {name: WEFT_ADDR, value: "0.0.0.0:8080"}
        - {name: WEFT_OPS_ADDR, value: "0.0.0.0:9090"}
        {{- range $name, $value := .root.Values.settings }}
        - {name: {{ $name | quote }}, value: {{ $value | quote }}}
        {{- end }}
      {{- if ne .command "migrate" }}
      ports:
        {{- if eq .command "serve" }}
        - {name: http, containerPort: 8080}
        {{- end }}
        - {name: ops, containerPort: 9090}
      livenessProbe:
        httpGet: {path: /healthz, port: ops}
        timeoutSeconds: 3
      readinessProbe:
        httpGet: {path: /readyz, port: ops}
        periodSeconds: 2
        timeoutSeconds: 3
      {{- end }}
      resources:
        {{- toYaml (index .root.Values .command).resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
{{- end -}}
