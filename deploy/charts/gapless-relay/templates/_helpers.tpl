{{- define "gapless-relay.fullname" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "gapless-relay.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "gapless-relay.labels" -}}
{{ include "gapless-relay.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | trunc 63 | trimSuffix "-" | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (replace "+" "_" .Chart.Version) | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "gapless-relay.account" -}}
{{ default (include "gapless-relay.fullname" .) .Values.serviceAccount.name }}
{{- end }}

{{- /* A role is of the whole cluster: two releases of one name in two namespaces have one each. */ -}}
{{- define "gapless-relay.role" -}}
{{ printf "%s-%s" .Release.Namespace (include "gapless-relay.fullname" .) }}
{{- end }}

{{- /* The rule for a pattern of --resources: pods, deployments.apps, deployments.v1.apps, '*.example.com' or '*'. */ -}}
{{- define "gapless-relay.rule" -}}
{{- $parts := splitList "." . }}
{{- $resource := first $parts }}
{{- $rest := rest $parts }}
{{- if and $rest (regexMatch "^v[0-9]" (first $rest)) }}{{ $rest = rest $rest }}{{ end }}
{{- $group := join "." $rest }}
{{- if eq . "*" }}{{ $group = "*" }}{{ end }}
- apiGroups: [{{ $group | quote }}]
  resources: [{{ $resource | quote }}]
  verbs: [list, watch]
{{- end }}
