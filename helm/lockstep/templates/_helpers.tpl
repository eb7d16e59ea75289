{{- define "lockstep.name" -}}
{{- /* A release's name may have dots, but a service's name may not. */}}
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

{{- /* Each release has its own key and lease, so two releases can share a namespace. Charts before 0.1.0
   named the key lockstep-operator-key. An upgrade keeps this key, because running jobs use keys made from it. */}}
{{- define "lockstep.keySecret" -}}
{{- $own := printf "%s-key" (include "lockstep.name" .) }}
{{- if .Values.keySecret }}{{ .Values.keySecret }}
{{- else if not .Release.IsUpgrade }}{{ $own }}
{{- else if lookup "v1" "Secret" .Release.Namespace $own }}{{ $own }}
{{- else if lookup "v1" "Secret" .Release.Namespace "lockstep-operator-key" }}lockstep-operator-key
{{- else }}{{ $own }}
{{- end }}
{{- end }}

{{- /* The labels that select the operator's pods. They never change. */}}
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

{{- /* Names outside of the release's namespace contain this namespace, so two releases may have the same
   name. The separator is a character that neither part can have: release "a" in "b-c" is not "a-b" in
   "c". Only names of RBAC may have a colon. */}}
{{- define "lockstep.clusterName" -}}
{{ include "lockstep.name" . }}:{{ .Release.Namespace }}
{{- end }}

{{- define "lockstep.image" -}}
{{ .image.repository }}{{ with .image.digest }}@{{ . }}{{ else }}:{{ .image.tag | default .version }}{{ end }}
{{- end }}

{{- /* Rights on jobs and on the objects that belong to jobs. */}}
{{- define "lockstep.jobRules" -}}
- apiGroups: [lockstep.dev]
  resources: [trainingjobs]
  verbs: [delete, get, list, watch]
- apiGroups: [lockstep.dev]
  resources: [trainingjobs/status]
  verbs: [update]
- apiGroups: [lockstep.dev]
  resources: [trainingjobs/finalizers] # for owner references that block deletion
  verbs: [update]
- apiGroups: [""]
  resources: [pods] # patch: only to restore labels that somebody has removed
  verbs: [create, delete, get, patch]
- apiGroups: [""]
  resources: [services]
  verbs: [create, get, list, patch, watch]
- apiGroups: [""]
  resources: [secrets] # the key of a job, which the operator never reads again
  verbs: [create]
- apiGroups: [""]
  resources: [resourcequotas] # checked before other jobs are evicted for a job
  verbs: [list]
- apiGroups: [""]
  resources: [namespaces] # for the Pod Security level of the jobs' namespaces
  verbs: [get]
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- if (.Values.kueue).enabled }}
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads] # get: only if the name of a new Workload is taken
  verbs: [create, delete, get, list, watch]
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads/status] # reports that pods run, have ended, or have given back their quota
  verbs: [patch]
{{- end }}
{{- if (.Values.provisioning).enabled }}
- apiGroups: [""]
  resources: [podtemplates] # the pods of a ProvisioningRequest
  verbs: [create, delete, get, list, watch]
- apiGroups: [autoscaling.x-k8s.io]
  resources: [provisioningrequests]
  verbs: [create, delete, get, list, watch]
{{- end }}
{{- if (.Values.placeholderPods).enabled }}
- apiGroups: [""]
  resources: [pods/status] # tells autoscalers that no node has room for a placeholder
  verbs: [patch]
{{- end }}
{{- if (.Values.nativeBinding).enabled }}
- apiGroups: [scheduling.k8s.io]
  resources: [podgroups] # kube-scheduler places gangs by these
  verbs: [create, delete, get, list, watch]
{{- end }}
{{- end }}
