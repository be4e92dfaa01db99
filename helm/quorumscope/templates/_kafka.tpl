{{/* How each pod reaches Kafka: the file for `--kafka`, and the Secrets that it names. No secret stands in it. */}}

{{- define "quorumscope.usesSasl" -}}
{{- if hasPrefix "SASL" .Values.kafka.protocol }}yes{{ end -}}
{{- end -}}

{{- define "quorumscope.usesTls" -}}
{{- if hasSuffix "SSL" .Values.kafka.protocol }}yes{{ end -}}
{{- end -}}

{{/* Who logs in: {root, own}, where `own` is the sasl section of a command, which can be empty. As YAML. */}}
{{- define "quorumscope.login" -}}
{{- $login := ternary .own .root.Values.kafka.sasl (not (empty .own.username)) -}}
username: {{ $login.username | quote }}
secret: {{ $login.existingSecret | quote }}
key: {{ $login.passwordKey | quote }}
{{- end -}}

{{/* The text of kafka.yaml: {root, own}. */}}
{{- define "quorumscope.kafkaYaml" -}}
{{- $kafka := .root.Values.kafka -}}
bootstrap: {{ $kafka.bootstrap | quote }}
protocol: {{ $kafka.protocol }}
{{- if include "quorumscope.usesSasl" .root }}
sasl:
  mechanism: {{ $kafka.sasl.mechanism }}
  username: {{ (include "quorumscope.login" . | fromYaml).username | quote }}
  password_file: /etc/quorumscope/kafka/password
{{- end }}
{{- if and (include "quorumscope.usesTls" .root) (or $kafka.tls.caSecret $kafka.tls.clientSecret) }}
tls:
  {{- if $kafka.tls.caSecret }}
  ca_file: /etc/quorumscope/kafka/ca.pem
  {{- end }}
  {{- if $kafka.tls.clientSecret }}
  certificate_file: /etc/quorumscope/kafka/certificate.pem
  key_file: /etc/quorumscope/kafka/key.pem
  {{- if $kafka.tls.privateKeyPasswordKey }}
  key_password_file: /etc/quorumscope/kafka/key-password
  {{- end }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* One volume with kafka.yaml and all that it names: {root, own, configMap}. */}}
{{- define "quorumscope.kafkaVolume" -}}
{{- $kafka := .root.Values.kafka -}}
- name: kafka
  projected:
    defaultMode: {{ include "quorumscope.secretMode" .root }}
    sources:
      - configMap:
          name: {{ include "quorumscope.fullname" .root }}-{{ .configMap }}
      {{- if include "quorumscope.usesSasl" .root }}
      {{- $login := include "quorumscope.login" . | fromYaml }}
      - secret:
          name: {{ $login.secret }}
          items:
            - {key: {{ $login.key }}, path: password}
      {{- end }}
      {{- if include "quorumscope.usesTls" .root }}
      {{- with $kafka.tls.caSecret }}
      - secret:
          name: {{ . }}
          items:
            - {key: {{ $kafka.tls.caKey }}, path: ca.pem}
      {{- end }}
      {{- with $kafka.tls.clientSecret }}
      - secret:
          name: {{ . }}
          items:
            - {key: {{ $kafka.tls.certificateKey }}, path: certificate.pem}
            - {key: {{ $kafka.tls.privateKeyKey }}, path: key.pem}
            {{- with $kafka.tls.privateKeyPasswordKey }}
            - {key: {{ . }}, path: key-password}
            {{- end }}
      {{- end }}
      {{- end }}
{{- end -}}

{{/* The ports of Kafka, as a list in JSON: those that are said, else those of the bootstrap address. */}}
{{- define "quorumscope.kafkaPorts" -}}
{{- $ports := list -}}
{{- range .Values.networkPolicy.kafkaPorts }}
{{- $ports = append $ports (int64 .) -}}
{{- end -}}
{{- if not $ports -}}
{{- range splitList "," .Values.kafka.bootstrap -}}
{{- $ports = append $ports (int64 (regexFind "[0-9]+$" .)) -}}
{{- end -}}
{{- end -}}
{{- $ports | uniq | toJson -}}
{{- end -}}

{{/* A duration such as 7d in milliseconds. */}}
{{- define "quorumscope.milliseconds" -}}
{{- $units := dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000 "d" 86400000 -}}
{{- mul (int64 (regexFind "^[0-9]+" .)) (get $units (regexFind "[a-z]+$" .)) -}}
{{- end -}}
