package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// pod writes realistic pods of about 4.6 KB: owned by a Deployment's ReplicaSet, one
// container, two managedFields entries, four conditions. 200 Deployments in 20
// namespaces have them on 500 nodes.
type pod struct {
	parts [][]byte // what is the same, between the holes
	holes []hole
}

type hole func(b []byte, n int, rv int64) []byte

const template = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"app-<app>-7c5ddbdf54-<id>","generateName":"app-<app>-7c5ddbdf54-","namespace":"prod-<ns>","uid":"<uid>-4c5e-9a3f-6a1e0d1c2b3a","resourceVersion":"<rv>","generation":1,"creationTimestamp":"2026-01-02T03:<minute>:05Z","labels":{"app":"app-<app>","pod-template-hash":"7c5ddbdf54","team":"core"},"annotations":{"prometheus.io/scrape":"true","prometheus.io/port":"9090"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"app-<app>-7c5ddbdf54","uid":"9c3d4c5e-7c3d-4c5e-9a3f-6a1e0d1c2b3a","controller":true,"blockOwnerDeletion":true}],"managedFields":[{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":"2026-01-02T03:<minute>:05Z","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:annotations":{".":{},"f:prometheus.io/port":{},"f:prometheus.io/scrape":{}},"f:generateName":{},"f:labels":{".":{},"f:app":{},"f:pod-template-hash":{},"f:team":{}},"f:ownerReferences":{".":{},"k:{\"uid\":\"9c3d4c5e-7c3d-4c5e-9a3f-6a1e0d1c2b3a\"}":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:env":{".":{},"k:{\"name\":\"LOG_LEVEL\"}":{".":{},"f:name":{},"f:value":{}},"k:{\"name\":\"POD_IP\"}":{".":{},"f:name":{},"f:valueFrom":{}}},"f:image":{},"f:imagePullPolicy":{},"f:name":{},"f:ports":{".":{},"k:{\"containerPort\":8080,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},"f:name":{},"f:protocol":{}}},"f:resources":{".":{},"f:limits":{".":{},"f:cpu":{},"f:memory":{}},"f:requests":{".":{},"f:cpu":{},"f:memory":{}}},"f:terminationMessagePath":{},"f:terminationMessagePolicy":{}}},"f:dnsPolicy":{},"f:enableServiceLinks":{},"f:restartPolicy":{},"f:schedulerName":{},"f:securityContext":{},"f:terminationGracePeriodSeconds":{}}}},{"manager":"kubelet","operation":"Update","apiVersion":"v1","time":"2026-01-02T03:<minute>:09Z","fieldsType":"FieldsV1","fieldsV1":{"f:status":{"f:conditions":{"k:{\"type\":\"ContainersReady\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}},"k:{\"type\":\"Initialized\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}},"k:{\"type\":\"Ready\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}}},"f:containerStatuses":{},"f:hostIP":{},"f:phase":{},"f:podIP":{},"f:podIPs":{".":{},"k:{\"ip\":\"10.1.2.3\"}":{".":{},"f:ip":{}}},"f:startTime":{}}},"subresource":"status"}]},"spec":{"volumes":[{"name":"kube-api-access-<id>","projected":{"sources":[{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},{"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":"ca.crt"}]}},{"downwardAPI":{"items":[{"path":"namespace","fieldRef":{"apiVersion":"v1","fieldPath":"metadata.namespace"}}]}}],"defaultMode":420}}],"containers":[{"name":"web","image":"example.org/shop/app-<app>:1.42.7","ports":[{"name":"http","containerPort":8080,"protocol":"TCP"}],"env":[{"name":"LOG_LEVEL","value":"info"},{"name":"POD_IP","valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"status.podIP"}}}],"resources":{"limits":{"cpu":"500m","memory":"256Mi"},"requests":{"cpu":"100m","memory":"128Mi"}},"volumeMounts":[{"name":"kube-api-access-<id>","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}],"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"default","serviceAccount":"default","nodeName":"node-<node>","securityContext":{},"schedulerName":"default-scheduler","tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}],"priority":0,"enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority"},"status":{"phase":"Running","conditions":[{"type":"Initialized","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-01-02T03:<minute>:05Z"},{"type":"Ready","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-01-02T03:<minute>:09Z"},{"type":"ContainersReady","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-01-02T03:<minute>:09Z"},{"type":"PodScheduled","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-01-02T03:<minute>:05Z"}],"hostIP":"10.0.1.<node>","podIP":"<ip>","podIPs":[{"ip":"<ip>"}],"startTime":"2026-01-02T03:<minute>:05Z","containerStatuses":[{"name":"web","state":{"running":{"startedAt":"2026-01-02T03:<minute>:08Z"}},"lastState":{},"ready":true,"restartCount":0,"image":"example.org/shop/app-<app>:1.42.7","imageID":"example.org/shop/app@sha256:0f7f5c9e7c3d4c5e9a3f6a1e0d1c2b3a0f7f5c9e7c3d4c5e9a3f6a1e0d1c2b3a","containerID":"containerd://<uid>9a3f6a1e0d1c2b3a0f7f5c9e7c3d4c5e9a3f6a1e0d1c2b3a","started":true}],"qosClass":"Burstable"}}`

func newPod() *pod {
	number := func(of func(n int, rv int64) int64) hole {
		return func(b []byte, n int, rv int64) []byte { return strconv.AppendInt(b, of(n, rv), 10) }
	}
	known := map[string]hole{
		"app": number(func(n int, _ int64) int64 { return int64(n % 200) }),
		"ns":  number(func(n int, _ int64) int64 { return int64(n % 20) }),
		"node": number(func(n int, _ int64) int64 {
			return int64(n % 500)
		}),
		"rv": number(func(_ int, rv int64) int64 { return rv }),
		"id": func(b []byte, n int, _ int64) []byte { return fmt.Appendf(b, "%05x", n) },
		"uid": func(b []byte, n int, _ int64) []byte {
			return fmt.Appendf(b, "%08x-%04x", uint32(n)*2654435761, n%9973)
		},
		"minute": func(b []byte, n int, _ int64) []byte { return fmt.Appendf(b, "%02d", n%60) },
		"ip":     func(b []byte, n int, _ int64) []byte { return fmt.Appendf(b, "10.%d.%d.%d", n>>16, n>>8&255, n&255) },
	}
	p := &pod{}
	for rest := template; ; {
		before, behind, more := strings.Cut(rest, "<")
		p.parts = append(p.parts, []byte(before))
		if !more {
			return p
		}
		name, behind, _ := strings.Cut(behind, ">")
		p.holes = append(p.holes, known[name])
		rest = behind
	}
}

// write appends pod n in its state rv.
func (p *pod) write(b *bytes.Buffer, n int, rv int64) {
	var scratch [32]byte
	for i, part := range p.parts {
		b.Write(part)
		if i < len(p.holes) {
			b.Write(p.holes[i](scratch[:0], n, rv))
		}
	}
}
