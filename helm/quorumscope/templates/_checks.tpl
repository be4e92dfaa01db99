{{/*
What the schema cannot tell: values that do not fit each other, or the cluster. Each message says which value, and why.
Rendered by checks.yaml.
*/}}

{{- define "quorumscope.checks" -}}
{{- include "quorumscope.checkNames" . -}}
{{- include "quorumscope.checkRequired" . -}}
{{- include "quorumscope.checkKafka" . -}}
{{- include "quorumscope.checkMode" . -}}
{{- include "quorumscope.checkConf" . -}}
{{- include "quorumscope.checkExtras" . -}}
{{- include "quorumscope.checkReplay" . -}}
{{- if and (eq .Values.topics.create "strimzi") (not .Values.topics.strimzi.cluster) -}}
{{- fail "topics.strimzi.cluster is required with topics.create=strimzi: Strimzi's name of the Kafka cluster" -}}
{{- end -}}
{{- if and (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) -}}
{{- fail "serviceAccount.name is required with serviceAccount.create=false: the account of the driver" -}}
{{- end -}}
{{- range $section := list "driver" "replay" -}}
{{- $values := get $.Values $section -}}
{{- include "quorumscope.checkHeap" (dict "path" $section "values" $values) -}}
{{- end -}}
{{- if .Values.checkSecrets -}}
{{- include "quorumscope.checkSecrets" . -}}
{{- end -}}
{{- end -}}

{{- define "quorumscope.checkNames" -}}
{{- $name := include "quorumscope.fullname" . -}}
{{- if gt (len $name) 40 -}}
{{- fail (printf "the names of the objects would begin with %q, which has %d characters, and longer names of Services than 63 are not allowed: set fullnameOverride to 40 characters or fewer" $name (len $name)) -}}
{{- end -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name) -}}
{{- fail (printf "the names of the objects would begin with %q, and those of Services begin with a letter and have letters, digits and '-' only: set fullnameOverride" $name) -}}
{{- end -}}
{{- range $path, $labels := dict "commonLabels" .Values.commonLabels "driver.podLabels" .Values.driver.podLabels "executors.podLabels" .Values.executors.podLabels "exporter.podLabels" .Values.exporter.podLabels -}}
{{- range $label, $_ := $labels -}}
{{- if or (hasPrefix "app.kubernetes.io/" $label) (hasPrefix "helm.sh/" $label) (hasPrefix "spark-" $label) -}}
{{- fail (printf "%s: the label %s is one that the chart or Spark sets" $path $label) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "quorumscope.checkRequired" -}}
{{- if not .Values.kafka.bootstrap -}}
{{- fail "kafka.bootstrap is required: Kafka's address, HOST:PORT, several separated by commas" -}}
{{- end -}}
{{- $swarms := .Values.swarms -}}
{{- if not (or $swarms.file $swarms.existingConfigMap) -}}
{{- fail "swarms.file or swarms.existingConfigMap is required: --set-file swarms.file=swarms.yaml with the file that `quorumscope swarm new` makes" -}}
{{- end -}}
{{- if and $swarms.file $swarms.existingConfigMap -}}
{{- fail "swarms.file and swarms.existingConfigMap are both set: give the file, or the name of a ConfigMap that holds it" -}}
{{- end -}}
{{- end -}}

{{- define "quorumscope.checkKafka" -}}
{{- $kafka := .Values.kafka -}}
{{- range splitList "," $kafka.bootstrap -}}
{{- $port := regexFind "[0-9]{1,9}$" . | int64 -}}
{{- if not (and (regexMatch "^([A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?|\\[[0-9a-fA-F:]+\\]):[0-9]+$" .) (gt $port 0) (lt $port 65536)) -}}
{{- fail (printf "kafka.bootstrap: expected HOST:PORT, several separated by commas, got %q" .) -}}
{{- end -}}
{{- end -}}
{{- if include "quorumscope.usesSasl" . -}}
{{- if not (and $kafka.sasl.username $kafka.sasl.existingSecret) -}}
{{- fail (printf "kafka.sasl.username and kafka.sasl.existingSecret are required with kafka.protocol=%s: who logs in, and the Secret with the password" $kafka.protocol) -}}
{{- end -}}
{{- end -}}
{{- range $path, $own := dict "kafka.sasl" $kafka.sasl "topics.sasl" .Values.topics.sasl "exporter.sasl" .Values.exporter.sasl "canary.sasl" .Values.canary.sasl "replay.sasl" .Values.replay.sasl -}}
{{- if ne (empty $own.username) (empty $own.existingSecret) -}}
{{- fail (printf "%s: username and existingSecret go together, and only one of them is set" $path) -}}
{{- end -}}
{{- if and $own.username (not (include "quorumscope.usesSasl" $)) -}}
{{- fail (printf "%s is set, and kafka.protocol is %s, which knows no users: set it to SASL_SSL or SASL_PLAINTEXT" $path $kafka.protocol) -}}
{{- end -}}
{{- end -}}
{{- if and (or $kafka.tls.caSecret $kafka.tls.clientSecret) (not (include "quorumscope.usesTls" .)) -}}
{{- fail (printf "kafka.tls is set, and kafka.protocol is %s, which is not encrypted: set it to SSL or SASL_SSL" $kafka.protocol) -}}
{{- end -}}
{{- if and $kafka.tls.privateKeyPasswordKey (not $kafka.tls.clientSecret) -}}
{{- fail "kafka.tls.privateKeyPasswordKey is set without kafka.tls.clientSecret, in which it is a key" -}}
{{- end -}}
{{- end -}}

{{- define "quorumscope.checkMode" -}}
{{- $checkpoint := .Values.checkpoint -}}
{{- if hasPrefix "file:" $checkpoint.uri -}}
{{- fail (printf "checkpoint.uri is %s: files belong on the volume; leave it empty, or name an object store" $checkpoint.uri) -}}
{{- end -}}
{{- if eq .Values.spark.mode "kubernetes" -}}
{{- if and (not $checkpoint.uri) (ne $checkpoint.accessMode "ReadWriteMany") -}}
{{- fail (printf "spark.mode is kubernetes, and checkpoint.accessMode is %s: executors on other nodes could not write the state. Set checkpoint.uri to an object store, or checkpoint.accessMode to ReadWriteMany with a storage class that can do that" $checkpoint.accessMode) -}}
{{- end -}}
{{- if lt (int64 .Values.driver.shufflePartitions) 1 -}}
{{- fail (printf "driver.shufflePartitions is required with spark.mode=kubernetes, because it is fixed when the checkpoint is made: as many as all executors will ever have cores (now %d), or some more" (mul .Values.executors.instances .Values.executors.cores)) -}}
{{- end -}}
{{- if and (not .Values.serviceAccount.create) (not .Values.serviceAccount.executorName) -}}
{{- fail "serviceAccount.executorName is required with serviceAccount.create=false and spark.mode=kubernetes: an account without rights, for executors" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Settings of Spark that are not the operator's: ours, those that have a value of their own, and secrets. */}}
{{- define "quorumscope.checkConf" -}}
{{- $own := dict
  "spark.driver.memory" "driver.memory"
  "spark.executor.instances" "executors.instances"
  "spark.executor.cores" "executors.cores"
  "spark.executor.memory" "executors.memory"
  "spark.executor.memoryOverhead" "executors.memoryOverhead"
  "spark.kubernetes.executor.request.cores" "executors.cpuRequest"
  "spark.sql.shuffle.partitions" "driver.shufflePartitions"
  "spark.master" "spark.mode"
  "spark.kubernetes.namespace" "the release's namespace"
  "spark.kubernetes.container.image" "image"
  "spark.kubernetes.container.image.pullPolicy" "image.pullPolicy"
  "spark.kubernetes.container.image.pullSecrets" "image.pullSecrets"
-}}
{{- $fixed := list "spark.app.name" "spark.jars" "spark.submit.deployMode" "spark.driver.host" "spark.driver.bindAddress" "spark.driver.port" "spark.driver.blockManager.port" "spark.blockManager.port" "spark.local.dir" "spark.kubernetes.driver.pod.name" "spark.kubernetes.executor.podTemplateFile" "spark.kubernetes.executor.podTemplateContainerName" "spark.kubernetes.authenticate.executor.serviceAccountName" "spark.kubernetes.executor.disableConfigMap" "spark.kubernetes.driver.service.deleteOnTermination" "spark.kubernetes.driver.ownPersistentVolumeClaim" "spark.kubernetes.driver.reusePersistentVolumeClaim" "spark.authenticate" "spark.network.crypto.enabled" "spark.network.crypto.saslFallback" "spark.dynamicAllocation.enabled" -}}
{{- range $name, $_ := .Values.spark.conf -}}
{{- if hasKey $own $name -}}
{{- fail (printf "spark.conf: %s is set by %s" $name (get $own $name)) -}}
{{- end -}}
{{- if has $name $fixed -}}
{{- fail (printf "spark.conf: %s is the chart's: with another value driver and executors would not find or not trust each other" $name) -}}
{{- end -}}
{{- if regexMatch "(?i)secret|password|token|access[.]?key|jaas|keystore|ssl[.]key|private.?key" $name -}}
{{- fail (printf "spark.conf: %s looks like a secret, and everybody who may look at the pod would see it: give it by extraEnv with secretKeyRef, by extraVolumes, or by a role of the service account" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "quorumscope.checkExtras" -}}
{{- range .Values.extraEnv -}}
{{- if has .name (list "HOME" "SPARK_LOCAL_DIRS" "POD_NAME") -}}
{{- fail (printf "extraEnv: %s is set by the chart" .name) -}}
{{- end -}}
{{- if and (get . "value") (regexMatch "(?i)secret|password|token|access_?key" .name) -}}
{{- fail (printf "extraEnv: the value of %s would stand in the release: take it from a Secret, with valueFrom.secretKeyRef" .name) -}}
{{- end -}}
{{- end -}}
{{- range .Values.extraVolumes -}}
{{- $volume := . -}}
{{- if or (has .name (list "tmp" "kafka" "swarms" "scratch" "checkpoint" "executor" "spark")) (hasPrefix "spark-local-dir-" .name) -}}
{{- fail (printf "extraVolumes: the name %s is one of the chart's volumes: call it otherwise" .name) -}}
{{- end -}}
{{- range without (keys .) "name" "configMap" "csi" "downwardAPI" "emptyDir" "ephemeral" "persistentVolumeClaim" "projected" "secret" -}}
{{- fail (printf "extraVolumes: %s is of the kind %s, which the restricted pod security standard does not admit" $volume.name .) -}}
{{- end -}}
{{- end -}}
{{- range .Values.extraVolumeMounts -}}
{{- $mount := . -}}
{{- range list "/tmp" "/scratch" "/checkpoint" "/opt/quorumscope" "/etc/quorumscope" -}}
{{- if or (eq . $mount.mountPath) (hasPrefix (printf "%s/" .) $mount.mountPath) -}}
{{- fail (printf "extraVolumeMounts: %s is in %s, which is the chart's: mount it elsewhere" $mount.mountPath .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "quorumscope.checkReplay" -}}
{{- $replay := .Values.replay -}}
{{- if $replay.enabled -}}
{{- if not $replay.into -}}
{{- fail "replay.into is required with replay.enabled: what the names of the topics that it writes to begin with" -}}
{{- end -}}
{{- if eq $replay.into .Values.kafka.prefix -}}
{{- fail (printf "replay.into is %q, which is the prefix of the live topics (kafka.prefix): a replay never writes there" $replay.into) -}}
{{- end -}}
{{- if not (contains "segments" $replay.queries) -}}
{{- fail (printf "replay.queries is %q, and the query matrix reads what segments writes: name segments too" $replay.queries) -}}
{{- end -}}
{{- if and $replay.diff (not (contains "matrix" $replay.queries)) -}}
{{- fail (printf "replay.diff compares what all queries say, and replay.queries is %q: name both, or set replay.diff to false" $replay.queries) -}}
{{- end -}}
{{- range $time, $offsets := dict "from" "fromOffsets" "to" "toOffsets" -}}
{{- if and (get $replay $time) (get $replay $offsets) -}}
{{- fail (printf "replay.%s and replay.%s are both set: give a time, or offsets" $time $offsets) -}}
{{- end -}}
{{- end -}}
{{- if and $replay.from $replay.to -}}
{{- if not (lt (unixEpoch (toDate "2006-01-02T15:04:05Z07:00" $replay.from) | int64) (unixEpoch (toDate "2006-01-02T15:04:05Z07:00" $replay.to) | int64)) -}}
{{- fail (printf "replay.to is %s, which is not after replay.from, %s" $replay.to $replay.from) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A heap that its pod has no memory for: {path, values}. */}}
{{- define "quorumscope.checkHeap" -}}
{{- $limit := dig "resources" "limits" "memory" "" .values -}}
{{- if $limit -}}
{{- $heap := include "quorumscope.mebibytes" .values.memory | int64 -}}
{{- $room := include "quorumscope.mebibytes" $limit | int64 -}}
{{- if gt (mul 4 $heap) (mul 3 $room) -}}
{{- fail (printf "%s.memory is %s, and %s.resources.limits.memory %v: Python's workers and the JVM itself need a quarter of the pod's memory at the very least" .path .values.memory .path $limit) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Memory as Spark or Kubernetes write it, in MiB. */}}
{{- define "quorumscope.mebibytes" -}}
{{- $text := toString . | lower | trimSuffix "b" | trimSuffix "i" -}}
{{- $number := regexFind "^[0-9.]+" $text | float64 -}}
{{- $bytes := dict "" 1.0 "k" 1024.0 "m" 1048576.0 "g" 1073741824.0 "t" 1099511627776.0 -}}
{{- divf (mulf $number (get $bytes (regexFind "[kmgt]?$" $text))) 1048576.0 | floor | int64 -}}
{{- end -}}

{{/*
Secrets and ConfigMaps that are referred to and are not there. Where the chart is only rendered, and in a namespace that is
made by the installation itself, nothing can be looked up: each namespace has an account `default`.
*/}}
{{- define "quorumscope.checkSecrets" -}}
{{- if lookup "v1" "ServiceAccount" .Release.Namespace "default" -}}
{{- $kafka := .Values.kafka -}}
{{- $wanted := list -}}
{{- if include "quorumscope.usesSasl" . -}}
{{- $wanted = append $wanted (list "kafka.sasl.existingSecret" $kafka.sasl.existingSecret $kafka.sasl.passwordKey) -}}
{{- $users := dict "canary" .Values.canary.enabled "exporter" .Values.exporter.enabled "topics" (eq .Values.topics.create "job") "replay" .Values.replay.enabled -}}
{{- range $section, $used := $users -}}
{{- $own := (get $.Values $section).sasl -}}
{{- if and $used $own.existingSecret -}}
{{- $wanted = append $wanted (list (printf "%s.sasl.existingSecret" $section) $own.existingSecret $own.passwordKey) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with $kafka.tls.caSecret -}}
{{- $wanted = append $wanted (list "kafka.tls.caSecret" . $kafka.tls.caKey) -}}
{{- end -}}
{{- with $kafka.tls.clientSecret -}}
{{- range compact (list $kafka.tls.certificateKey $kafka.tls.privateKeyKey $kafka.tls.privateKeyPasswordKey) -}}
{{- $wanted = append $wanted (list "kafka.tls.clientSecret" $kafka.tls.clientSecret .) -}}
{{- end -}}
{{- end -}}
{{- if and (eq .Values.spark.mode "kubernetes") .Values.spark.auth.existingSecret -}}
{{- $wanted = append $wanted (list "spark.auth.existingSecret" .Values.spark.auth.existingSecret .Values.spark.auth.key) -}}
{{- end -}}
{{- range $wanted -}}
{{- include "quorumscope.checkHeld" (dict "root" $ "kind" "Secret" "path" (index . 0) "name" (index . 1) "key" (index . 2)) -}}
{{- end -}}
{{- with .Values.swarms.existingConfigMap -}}
{{- include "quorumscope.checkHeld" (dict "root" $ "kind" "ConfigMap" "path" "swarms.existingConfigMap" "name" . "key" $.Values.swarms.key) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "quorumscope.checkHeld" -}}
{{- $found := lookup "v1" .kind .root.Release.Namespace .name -}}
{{- if not $found -}}
{{- fail (printf "%s: there is no %s %s in the namespace %s: make it first (or set checkSecrets to false, if it comes later)" .path .kind .name .root.Release.Namespace) -}}
{{- end -}}
{{- if not (hasKey (get $found "data" | default dict) .key) -}}
{{- fail (printf "%s: the %s %s has no key %q; it has: %s" .path .kind .name .key (keys (get $found "data" | default dict) | sortAlpha | join ", ")) -}}
{{- end -}}
{{- if eq .path "spark.auth.existingSecret" -}}
{{- if lt (len (b64dec (get $found.data .key))) 32 -}}
{{- fail (printf "%s: the value of %q in the Secret %s has fewer than 32 characters" .path .key .name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
