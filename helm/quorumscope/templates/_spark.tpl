{{/* Spark's settings, as options of the program; nothing in them is secret. */}}

{{/* Settings of mode kubernetes: {root}. Each says why it is not Spark's default. */}}
{{- define "quorumscope.kubernetesConf" -}}
{{- $name := include "quorumscope.fullname" . -}}
{{- $executors := .Values.executors -}}
spark.kubernetes.namespace: {{ .Release.Namespace }}
spark.kubernetes.container.image: {{ include "quorumscope.image" . }}
spark.kubernetes.container.image.pullPolicy: {{ .Values.image.pullPolicy }}
# Executors belong to the driver's pod: what a lost driver leaves behind goes with its pod.
spark.kubernetes.driver.pod.name: $(POD_NAME)
spark.kubernetes.executor.podTemplateFile: /etc/quorumscope/executor/pod.yaml
spark.kubernetes.executor.podTemplateContainerName: executor
spark.kubernetes.authenticate.executor.serviceAccountName: {{ include "quorumscope.executorAccount" . }}
spark.kubernetes.executor.request.cores: {{ $executors.cpuRequest | default $executors.cores | toString | quote }}
# What Spark makes beside pods, it makes to be more general than we need: without it, pods are all that it has rights to.
spark.kubernetes.executor.disableConfigMap: "true"
spark.kubernetes.driver.service.deleteOnTermination: "false"
spark.kubernetes.driver.ownPersistentVolumeClaim: "false"
spark.kubernetes.driver.reusePersistentVolumeClaim: "false"
spark.driver.host: {{ $name }}-driver.{{ .Release.Namespace }}.svc
spark.driver.bindAddress: 0.0.0.0
spark.driver.port: "7078"
spark.driver.blockManager.port: "7079"
spark.blockManager.port: "7079"
spark.executor.instances: {{ int64 $executors.instances | toString | quote }}
spark.executor.cores: {{ int64 $executors.cores | toString | quote }}
spark.executor.memory: {{ $executors.memory }}
spark.executor.memoryOverhead: {{ $executors.memoryOverhead }}
# Executors that fail count against a limit that ends the job. It runs for months, so what was long ago must not count.
spark.executor.failuresValidityInterval: 1h
# The connections carry Kafka's settings, passwords too. The newer handshake, and a cipher that notices changes.
spark.authenticate: "true"
spark.authenticate.secret.driver.file: /etc/quorumscope/spark/secret
# Executors need it before they have met the driver, and then they do not look at the setting that is theirs by its name.
spark.authenticate.secret.file: /etc/quorumscope/spark/secret
spark.network.crypto.enabled: "true"
spark.network.crypto.authEngineVersion: "2"
spark.network.crypto.cipher: AES/GCM/NoPadding
spark.network.crypto.saslFallback: "false"
{{- end -}}

{{/* The settings of the driver as options, ours and then the operator's, which win. */}}
{{- define "quorumscope.confArgs" -}}
{{- $conf := dict "spark.driver.memory" .Values.driver.memory -}}
{{- if eq .Values.spark.mode "kubernetes" -}}
{{- $conf = merge $conf (include "quorumscope.kubernetesConf" . | fromYaml) -}}
{{- end -}}
{{- $conf = merge (dict) .Values.spark.conf $conf -}}
{{- range $name, $value := $conf }}
- --conf
- {{ printf "%s=%v" $name (ternary (printf "%d" (int64 $value)) $value (kindIs "float64" $value)) | quote }}
{{- end }}
{{- end -}}

{{- define "quorumscope.master" -}}
{{- if eq .Values.spark.mode "kubernetes" -}}
k8s://https://kubernetes.default.svc:443
{{- else -}}
local[{{ int64 .Values.driver.cores }}]
{{- end -}}
{{- end -}}
