{{/* The pod of a replay: {root, connection, range}. */}}
{{- define "quorumscope.replayPod" -}}
{{- $root := .root -}}
{{- $replay := .root.Values.replay -}}
metadata:
  labels:
    {{- include "quorumscope.podLabels" (dict "root" .root "component" "replay" "own" dict) | nindent 4 }}
  annotations:
    checksum/kafka: {{ include "quorumscope.kafkaYaml" .connection | sha256sum }}
    {{- if not .root.Values.swarms.existingConfigMap }}
    checksum/swarms: {{ include "quorumscope.swarmsText" .root | sha256sum }}
    {{- end }}
spec:
  {{- include "quorumscope.podSpec" .root | nindent 2 }}
  restartPolicy: Never
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: {{ int64 .root.Values.driver.terminationGracePeriodSeconds }}
  containers:
    - name: replay
      {{- include "quorumscope.container" .root | nindent 6 }}
      args:
        - replay
        {{- include "quorumscope.swarmsArg" .root | nindent 8 }}
        {{- include "quorumscope.kafkaArgs" .root | nindent 8 }}
        - --into={{ $replay.into }}
        - --checkpoint=/checkpoint/state
        {{- with $replay.from }}
        - --from={{ . }}
        {{- end }}
        {{- with $replay.to }}
        - --to={{ . }}
        {{- end }}
        {{- with $replay.fromOffsets }}
        - --from-offsets={{ . }}
        {{- end }}
        {{- with $replay.toOffsets }}
        - --to-offsets={{ . }}
        {{- end }}
        - --queries={{ $replay.queries }}
        {{- if $replay.diff }}
        - --diff
        {{- end }}
        - --master=local[{{ int64 $replay.cores }}]
        - --offsets-max={{ int64 $root.Values.driver.offsetsMax }}
        - --patience={{ $root.Values.driver.patience }}
        - --conf
        - spark.driver.memory={{ $replay.memory }}
      env:
        - {name: HOME, value: /tmp}
        - {name: SPARK_LOCAL_DIRS, value: /scratch}
      resources:
        {{- toYaml $replay.resources | nindent 8 }}
      volumeMounts:
        {{- include "quorumscope.mounts" .root | nindent 8 }}
        {{- include "quorumscope.swarmsMount" .root | nindent 8 }}
        - {name: scratch, mountPath: /scratch}
        - {name: checkpoint, mountPath: /checkpoint}
  volumes:
    {{- include "quorumscope.volumes" .connection | nindent 4 }}
    {{- include "quorumscope.swarmsVolume" .root | nindent 4 }}
    - name: scratch
      emptyDir:
        sizeLimit: {{ .root.Values.driver.scratchSize }}
    - name: checkpoint
      persistentVolumeClaim:
        claimName: {{ include "quorumscope.fullname" .root }}-replay-{{ .range }}
{{- end -}}
