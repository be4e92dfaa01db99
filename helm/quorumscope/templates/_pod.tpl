{{/* What all pods have in common, so that each passes the `restricted` pod security standard. */}}

{{/*
Who a pod runs as, and what it is not given. Variables for Services are left out: some would be taken for options of
quorumscope, which begin with QUORUMSCOPE_ too.
*/}}
{{- define "quorumscope.podSpec" -}}
{{- with include "quorumscope.priorityClassName" . -}}
priorityClassName: {{ . }}
{{ end -}}
{{ include "quorumscope.hookPodSpec" . }}
{{- end -}}

{{/* The same for a pod that runs before there is anything of the release, such as a priority class. */}}
{{- define "quorumscope.hookPodSpec" -}}
enableServiceLinks: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  {{- with .Values.podSecurityContext }}
  {{- if not (kindIs "invalid" .runAsUser) }}
  runAsUser: {{ int64 .runAsUser }}
  {{- end }}
  {{- if not (kindIs "invalid" .runAsGroup) }}
  runAsGroup: {{ int64 .runAsGroup }}
  {{- end }}
  {{- if not (kindIs "invalid" .fsGroup) }}
  fsGroup: {{ int64 .fsGroup }}
  fsGroupChangePolicy: OnRootMismatch
  {{- end }}
  {{- end }}
  seccompProfile:
    type: RuntimeDefault
{{- end -}}

{{/* Image and rights of a container. Its last words are what `kubectl describe` shows when it fails. */}}
{{- define "quorumscope.container" -}}
image: {{ include "quorumscope.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
workingDir: /tmp
terminationMessagePolicy: FallbackToLogsOnError
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end -}}

{{/* Where a pod may run: its section of the values. */}}
{{- define "quorumscope.placement" -}}
{{- range $field := list "nodeSelector" "tolerations" "affinity" }}
{{- with get $ $field }}
{{ $field }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end -}}

{{/* How pods are spread: {root, component, own}. */}}
{{- define "quorumscope.spread" -}}
topologySpreadConstraints:
{{- if .own }}
  {{- toYaml .own | nindent 2 }}
{{- else }}
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "quorumscope.selector" . | nindent 8 }}
{{- end }}
{{- end -}}

{{/* Files that only the group of the pod may read; all in the pod, where the cluster chooses the group. */}}
{{- define "quorumscope.secretMode" -}}
{{ if kindIs "invalid" .Values.podSecurityContext.fsGroup }}0444{{ else }}0440{{ end }}
{{- end -}}

{{/* Volumes that each pod of the program has: {root, kafka} with the connection of `quorumscope.connection`. */}}
{{- define "quorumscope.volumes" -}}
- name: tmp
  emptyDir:
    sizeLimit: 1Gi
{{ include "quorumscope.kafkaVolume" . }}
{{- end -}}

{{- define "quorumscope.mounts" -}}
- name: tmp
  mountPath: /tmp
- name: kafka
  mountPath: /etc/quorumscope/kafka
  readOnly: true
{{- end -}}

{{- define "quorumscope.swarmsVolume" -}}
- name: swarms
  configMap:
    name: {{ include "quorumscope.swarmsConfigMap" . }}
    items:
      - key: {{ include "quorumscope.swarmsKey" . }}
        path: swarms.yaml
{{- end -}}

{{- define "quorumscope.swarmsMount" -}}
- name: swarms
  mountPath: /etc/quorumscope/swarms
  readOnly: true
{{- end -}}

{{/* Options that the commands share. */}}
{{- define "quorumscope.kafkaArgs" -}}
- --kafka=/etc/quorumscope/kafka/kafka.yaml
- --prefix={{ .Values.kafka.prefix }}
{{- end -}}

{{- define "quorumscope.swarmsArg" -}}
- --swarms=/etc/quorumscope/swarms/swarms.yaml
{{- end -}}

{{/* What Kubernetes does with a Job by its exit code: a finding or a wrong setting does not get better by trying again. */}}
{{- define "quorumscope.podFailurePolicy" -}}
podFailurePolicy:
  rules:
    - action: Ignore
      onPodConditions:
        - type: DisruptionTarget
          status: "True"
    - action: FailJob
      onExitCodes:
        containerName: {{ . }}
        operator: In
        values: [1, 2]
      # Kubernetes 1.26 asks for the field, and newer ones take it empty.
      onPodConditions: []
{{- end -}}
