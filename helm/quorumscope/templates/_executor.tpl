{{/* The pod from which Spark makes those of executors. It adds image, sizes, its own variables and the argument `executor`. */}}
{{- define "quorumscope.executorPod" -}}
apiVersion: v1
kind: Pod
metadata:
  labels:
    {{- include "quorumscope.podLabels" (dict "root" . "component" "executor" "own" .Values.executors.podLabels) | nindent 4 }}
  {{- with merge (dict) .Values.executors.podAnnotations .Values.commonAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- include "quorumscope.podSpec" . | nindent 2 }}
  serviceAccountName: {{ include "quorumscope.executorAccount" . }}
  automountServiceAccountToken: false
  {{- include "quorumscope.placement" .Values.executors | indent 2 }}
  {{- include "quorumscope.spread" (dict "root" . "component" "executor" "own" .Values.executors.topologySpreadConstraints) | nindent 2 }}
  containers:
    - name: executor
      {{- include "quorumscope.container" . | nindent 6 }}
      command: [/usr/bin/tini, --, /opt/quorumscope/executor]
      env:
        - {name: HOME, value: /tmp}
        {{- with .Values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      volumeMounts:
        - {name: tmp, mountPath: /tmp}
        # By this name Spark knows it as the place for its files.
        - {name: spark-local-dir-1, mountPath: /scratch}
        - {name: spark, mountPath: /etc/quorumscope/spark, readOnly: true}
        {{- if not .Values.checkpoint.uri }}
        - {name: checkpoint, mountPath: /checkpoint}
        {{- end }}
        {{- with .Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: tmp
      emptyDir:
        sizeLimit: 1Gi
    - name: spark-local-dir-1
      emptyDir:
        sizeLimit: {{ .Values.executors.scratchSize }}
    {{- include "quorumscope.sparkVolume" . | nindent 4 }}
    {{- if not .Values.checkpoint.uri }}
    - name: checkpoint
      persistentVolumeClaim:
        claimName: {{ include "quorumscope.checkpointClaim" . }}
    {{- end }}
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}

{{/* The key by which driver and executors know each other. */}}
{{- define "quorumscope.sparkVolume" -}}
- name: spark
  secret:
    secretName: {{ include "quorumscope.authSecret" . }}
    defaultMode: {{ include "quorumscope.secretMode" . }}
    items:
      - {key: {{ ternary .Values.spark.auth.key "secret" (not (empty .Values.spark.auth.existingSecret)) }}, path: secret}
{{- end -}}
