//go:build tools

// Package tools names the programs of Kubernetes 1.37 that test clusters can have in place of those
// in ../tools, so that `go mod tidy` keeps what they need in go.mod and go.sum. It is never
// compiled.
package tools

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kube-scheduler"
	_ "k8s.io/kubernetes/cmd/kubectl"
	_ "k8s.io/kubernetes/cmd/kubelet"
)
