{{- define "lockstep.name" -}}
{{- /* A release's name may have dots, which a service's may not. */}}
{{- $name := .Release.Name | replace "." "-" }}
{{- if contains "lockstep" $name }}{{ $name | trunc 50 | trimSuffix "-" }}
{{- else }}{{ printf "%s-lockstep" $name | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "lockstep.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "lockstep.name" .) }}
{{- else }}{{ .Values.serviceAccount.name | default "default" }}
{{- end }}
{{- end }}

{{- /* The release's own, as the lease is: two releases in one namespace do not meet. Charts before 0.1.0
   called it lockstep-operator-key: an upgrade goes on with that, as running jobs have keys made of it. */}}
{{- define "lockstep.keySecret" -}}
{{- $own := printf "%s-key" (include "lockstep.name" .) }}
{{- if .Values.keySecret }}{{ .Values.keySecret }}
{{- else if not .Release.IsUpgrade }}{{ $own }}
{{- else if lookup "v1" "Secret" .Release.Namespace $own }}{{ $own }}
{{- else if lookup "v1" "Secret" .Release.Namespace "lockstep-operator-key" }}lockstep-operator-key
{{- else }}{{ $own }}
{{- end }}
{{- end }}

{{- /* The labels by which the operator's pods are found; they never change. */}}
{{- define "lockstep.selector" -}}
app.kubernetes.io/name: lockstep
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "lockstep.labels" -}}
{{ include "lockstep.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- /* Cluster-scoped names carry the namespace too: two releases of one name do not meet. */}}
{{- define "lockstep.clusterName" -}}
{{ include "lockstep.name" . }}-{{ .Release.Namespace }}
{{- end }}

{{- define "lockstep.image" -}}
{{ .image.repository }}:{{ .image.tag | default .version }}
{{- end }}

{{- /* What the operator does to jobs and to what belongs to them. */}}
{{- define "lockstep.jobRules" -}}
- apiGroups: [lockstep.dev]
  resources: [trainingjobs]
  verbs: [delete, get, list, watch]
- apiGroups: [lockstep.dev]
  resources: [trainingjobs/status]
  verbs: [update]
- apiGroups: [lockstep.dev]
  resources: [trainingjobs/finalizers] # owner references that block deletion need it
  verbs: [update]
- apiGroups: [""]
  resources: [pods] # patched only where somebody took labels off that find them
  verbs: [create, delete, get, patch]
- apiGroups: [""]
  resources: [services]
  verbs: [create, get, list, patch, watch]
- apiGroups: [""]
  resources: [secrets] # the key of a job: never read again
  verbs: [create]
- apiGroups: [""]
  resources: [resourcequotas] # whether the pods of a job may be created, before others go for it
  verbs: [list]
- apiGroups: [""]
  resources: [namespaces] # which Pod Security level theirs enforces
  verbs: [get]
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- if (.Values.kueue).enabled }}
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads] # read where the name of a new one is taken
  verbs: [create, delete, get, list, watch]
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads/status] # that pods run, have ended, or gave their quota back
  verbs: [patch]
{{- end }}
{{- if (.Values.provisioning).enabled }}
- apiGroups: [""]
  resources: [podtemplates] # what autoscalers are asked for
  verbs: [create, delete, get, list, watch]
- apiGroups: [autoscaling.x-k8s.io]
  resources: [provisioningrequests]
  verbs: [create, delete, get, list, watch]
{{- end }}
{{- if (.Values.placeholderPods).enabled }}
- apiGroups: [""]
  resources: [pods/status] # that no node has room for a placeholder: what autoscalers look at
  verbs: [patch]
{{- end }}
{{- if (.Values.nativeBinding).enabled }}
- apiGroups: [scheduling.k8s.io]
  resources: [podgroups] # by which kube-scheduler places gangs
  verbs: [create, delete, get, list, watch]
{{- end }}
{{- end }}
