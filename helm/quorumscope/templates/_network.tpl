{{/* Whom a pod may talk to; each is an entry of a NetworkPolicy's list. */}}

{{- define "quorumscope.egressDns" -}}
- ports:
    - {port: 53, protocol: UDP}
    - {port: 53, protocol: TCP}
{{- end -}}

{{- define "quorumscope.egressKafka" -}}
- ports:
    {{- range include "quorumscope.kafkaPorts" . | fromJsonArray }}
    - {port: {{ int64 . }}, protocol: TCP}
    {{- end }}
{{- end -}}

{{- define "quorumscope.ingressMetrics" -}}
- ports:
    - {port: metrics, protocol: TCP}
  {{- with .Values.networkPolicy.metricsFrom }}
  from:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{/* To or from pods of a component: {root, component, side, ports}. */}}
{{- define "quorumscope.peerRule" -}}
- {{ .side }}:
    - podSelector:
        matchLabels:
          {{- include "quorumscope.selector" . | nindent 10 }}
  ports:
    {{- range .ports }}
    - {port: {{ . }}, protocol: TCP}
    {{- end }}
{{- end -}}

{{/* A policy from its name on, up to its rules: {root, component}. What has no rule is forbidden. */}}
{{- define "quorumscope.policy" -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  {{- include "quorumscope.meta" (dict "root" .root "component" .component "name" .component) | nindent 2 }}
spec:
  podSelector:
    matchLabels:
      {{- include "quorumscope.selector" . | nindent 6 }}
  policyTypes: [Ingress, Egress]
{{- end -}}
