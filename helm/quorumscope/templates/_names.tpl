{{/*
What the names of all objects begin with. A release whose name begins with the chart's is called by its own name alone, so
no two releases of a namespace can have a name in common.
*/}}
{{- define "quorumscope.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride }}
{{- else if hasPrefix $name .Release.Name -}}
{{ .Release.Name }}
{{- else -}}
{{ .Release.Name }}-{{ $name }}
{{- end -}}
{{- end -}}

{{/* The name of an object in another namespace, where releases of several namespaces meet. */}}
{{- define "quorumscope.fullnameIn" -}}
{{- if or (not .namespace) (eq .namespace .root.Release.Namespace) -}}
{{ include "quorumscope.fullname" .root }}
{{- else -}}
{{ .root.Release.Namespace }}-{{ include "quorumscope.fullname" .root }}
{{- end -}}
{{- end -}}

{{/* Labels that pods are selected by: {root, component}. They never change. */}}
{{- define "quorumscope.selector" -}}
app.kubernetes.io/name: {{ default .root.Chart.Name .root.Values.nameOverride }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* Labels of an object: {root, component}. */}}
{{- define "quorumscope.labels" -}}
{{ include "quorumscope.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/part-of: quorumscope
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The metadata of an object: {root, component, name}, and if wanted annotations, labels and a namespace. */}}
{{- define "quorumscope.meta" -}}
name: {{ include "quorumscope.fullnameIn" . }}-{{ .name }}
namespace: {{ .namespace | default .root.Release.Namespace }}
labels:
  {{- include "quorumscope.labels" . | nindent 2 }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge (dict) (.annotations | default dict) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The labels of pods: {root, component, own}. */}}
{{- define "quorumscope.podLabels" -}}
{{ include "quorumscope.selector" . }}
app.kubernetes.io/part-of: quorumscope
{{- with merge (dict) .own .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "quorumscope.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "quorumscope.driverAccount" -}}
{{ .Values.serviceAccount.name | default (printf "%s-driver" (include "quorumscope.fullname" .)) }}
{{- end -}}

{{- define "quorumscope.executorAccount" -}}
{{ .Values.serviceAccount.executorName | default (printf "%s-executor" (include "quorumscope.fullname" .)) }}
{{- end -}}

{{- define "quorumscope.priorityClassName" -}}
{{- if .Values.priorityClass.name -}}
{{ .Values.priorityClass.name }}
{{- else if .Values.priorityClass.create -}}
{{ .Release.Namespace }}-{{ include "quorumscope.fullname" . }}
{{- end -}}
{{- end -}}

{{- define "quorumscope.checkpointClaim" -}}
{{ .Values.checkpoint.existingClaim | default (printf "%s-checkpoint" (include "quorumscope.fullname" .)) }}
{{- end -}}

{{- define "quorumscope.authSecret" -}}
{{ .Values.spark.auth.existingSecret | default (printf "%s-spark" (include "quorumscope.fullname" .)) }}
{{- end -}}

{{- define "quorumscope.exporterUrl" -}}
{{- .Values.exporter.url | default (printf "http://%s-exporter.%s.svc:%d" (include "quorumscope.fullname" .) .Release.Namespace (int64 .Values.exporter.service.port)) -}}
{{- end -}}
