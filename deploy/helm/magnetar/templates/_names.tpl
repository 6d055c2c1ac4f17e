{{- define "magnetar.labels" -}}
app.kubernetes.io/name: magnetar
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "magnetar.zookeeper" -}}
{{- if .Values.existingZookeeper -}}
{{ .Values.existingZookeeper }}
{{- else -}}
{{ .Release.Name }}-zookeeper:2181
{{- end -}}
{{- end }}
