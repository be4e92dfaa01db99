{{/* The file of swarms: what can be seen to be wrong with it, and the canary's swarm added to its list. */}}

{{- define "quorumscope.swarmsConfigMap" -}}
{{ .Values.swarms.existingConfigMap | default (printf "%s-swarms" (include "quorumscope.fullname" .)) }}
{{- end -}}

{{- define "quorumscope.swarmsKey" -}}
{{ ternary .Values.swarms.key "swarms.yaml" (not (empty .Values.swarms.existingConfigMap)) }}
{{- end -}}

{{/*
The text of the ConfigMap. The operator's file stays as it is, byte for byte; the canary's entry is written behind it as
text, because YAML that Helm has read and written again can mean something else (`y` becomes true). That the whole says
what both say is checked.
*/}}
{{- define "quorumscope.swarmsText" -}}
{{- $file := .Values.swarms.file -}}
{{- include "quorumscope.checkRequired" . -}}
{{- include "quorumscope.checkSwarms" . -}}
{{- if not .Values.canary.enabled -}}
{{- $file -}}
{{- else -}}
{{- $entry := .Files.Get (printf "files/canary-%d.yaml" (int64 .Values.canary.keys)) -}}
{{- $canary := index (fromYamlArray $entry) 0 -}}
{{- $swarms := (fromYaml $file).swarms -}}
{{- $present := list -}}
{{- range $at, $swarm := $swarms -}}
{{- if eq $swarm.id $canary.id -}}
{{- $present = append $present $at -}}
{{- else if eq $swarm.name $canary.name -}}
{{- fail (printf "swarms.file: at `swarms[%d].name`: %q is the name of the canary's swarm, which canary.enabled adds: call yours otherwise, or set canary.enabled to false" $at $swarm.name) -}}
{{- end -}}
{{- end -}}
{{- if $present -}}
{{- $file -}}
{{- else -}}
{{- $dash := regexFind "(?m)^ *- " $file -}}
{{- $shifted := regexReplaceAll "(?m)^  " (trimSuffix "\n" $entry) (repeat (max 0 (sub (len $dash) 2) | int) " ") -}}
{{- $text := printf "%s\n%s\n" (trimSuffix "\n" $file) $shifted -}}
{{- $wanted := dict "swarms" (append $swarms $canary) -}}
{{- if ne (toJson (fromYaml $text)) (toJson $wanted) -}}
{{- fail "swarms.file: the canary's swarm can be added only to a list with a line that begins with a dash for each swarm, at the end of the file: add what `quorumscope swarm canary` prints yourself, or set canary.enabled to false" -}}
{{- end -}}
{{- $text -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "quorumscope.checkSwarms" -}}
{{- $tree := fromYaml .Values.swarms.file -}}
{{- with get $tree "Error" -}}
{{- fail (printf "swarms.file is not YAML with a list `swarms` (%s): `quorumscope swarm new` makes one; give it with --set-file swarms.file=FILE" (. | replace "\n" " ")) -}}
{{- end -}}
{{- range $key, $_ := $tree -}}
{{- if ne $key "swarms" -}}
{{- fail (printf "swarms.file: expected `swarms` alone at the top level, got `%s`" $key) -}}
{{- end -}}
{{- end -}}
{{- $swarms := get $tree "swarms" -}}
{{- if or (not (kindIs "slice" $swarms)) (empty $swarms) -}}
{{- fail "swarms.file: expected a list `swarms` with one swarm or more: `quorumscope swarm new` makes one; give it with --set-file swarms.file=FILE" -}}
{{- end -}}
{{- if gt (len .Values.swarms.file) 1000000 -}}
{{- fail (printf "swarms.file has %d bytes, and a ConfigMap holds 1,048,576: spread the swarms over several releases" (len .Values.swarms.file)) -}}
{{- end -}}
{{- range $at, $swarm := $swarms -}}
{{- include "quorumscope.checkSwarm" (dict "path" (printf "swarms[%d]" $at) "swarm" $swarm) -}}
{{- end -}}
{{- end -}}

{{/* One swarm: {path, swarm}. The program checks all of it; what is looked at here are the mistakes of people. */}}
{{- define "quorumscope.checkSwarm" -}}
{{- if not (kindIs "map" .swarm) -}}
{{- fail (printf "swarms.file: at `%s`: expected a swarm with id, name and epochs, got %s" .path (toJson .swarm)) -}}
{{- end -}}
{{- include "quorumscope.checkHex" (dict "path" (printf "%s.id" .path) "value" (get .swarm "id")) -}}
{{- $name := get .swarm "name" -}}
{{- if not (and (kindIs "string" $name) (regexMatch "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$" (toString $name))) -}}
{{- fail (printf "swarms.file: at `%s.name`: expected a name of letters, digits, '.', '_' and '-', got %s" .path (toJson $name)) -}}
{{- end -}}
{{- $epochs := get .swarm "epochs" -}}
{{- if or (not (kindIs "slice" $epochs)) (empty $epochs) -}}
{{- fail (printf "swarms.file: at `%s.epochs`: expected at least one epoch, got none" .path) -}}
{{- end -}}
{{- $path := .path -}}
{{- range $at, $epoch := $epochs -}}
{{- $roster := dict -}}
{{- if kindIs "map" $epoch -}}
{{- $roster = get $epoch "roster" -}}
{{- end -}}
{{- if or (not (kindIs "map" $roster)) (empty $roster) -}}
{{- fail (printf "swarms.file: at `%s.epochs[%d].roster`: expected peers with their public keys, got none" $path $at) -}}
{{- end -}}
{{- range $peer, $key := $roster -}}
{{- include "quorumscope.checkHex" (dict "path" (printf "%s.epochs[%d].roster.%s" $path $at $peer) "value" $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "quorumscope.checkHex" -}}
{{- if not (and (kindIs "string" .value) (regexMatch "^[0-9a-f]{64}$" (toString .value))) -}}
{{- fail (printf "swarms.file: at `%s`: expected 64 lower-case hex digits (in quotes, if they are all decimal), got %s" .path (toJson .value)) -}}
{{- end -}}
{{- end -}}
