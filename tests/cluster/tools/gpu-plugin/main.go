// A device plugin without devices: it offers "GPU-<node>-<index>" to the kubelet, tells a container
// which ones it got in NVIDIA_VISIBLE_DEVICES, and keeps its own record of what it handed out, so
// that a test need not believe anybody else about it.
//
// Everything a test reads or writes lies in one folder:
//
//	allocations.jsonl   one line per container: {"time": …, "devices": ["GPU-node1-3", …]}
//	unhealthy/<index>   while this file exists, that device is unhealthy
//	refuse              while this file exists, every allocation fails, and so does its pod
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"

	"k8s.io/klog/v2"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	plugin "k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/plugin/v1beta1"
)

// How often flag files are looked at, and a kubelet that is not there yet is tried again.
const pollInterval = 200 * time.Millisecond

type options struct {
	count    int
	node     string
	resource string
	folder   string
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (o options) devices() []*api.Device {
	devices := make([]*api.Device, 0, o.count)
	for index := 0; index < o.count; index++ {
		health := api.Healthy
		if exists(filepath.Join(o.folder, "unhealthy", strconv.Itoa(index))) {
			health = api.Unhealthy
		}
		id := fmt.Sprintf("GPU-%s-%d", o.node, index)
		devices = append(devices, &api.Device{ID: id, Health: health})
	}
	return devices
}

func (o options) record(devices []string) error {
	line, err := json.Marshal(map[string]any{
		"time":    time.Now().UTC().Format(time.RFC3339Nano),
		"devices": devices,
	})
	if err != nil {
		return err
	}
	path := filepath.Join(o.folder, "allocations.jsonl")
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.Write(append(line, '\n'))
	return err
}

func (o options) allocate(
	request *api.AllocateRequest, _ map[string]*api.Device,
) (*api.AllocateResponse, error) {
	if exists(filepath.Join(o.folder, "refuse")) {
		return nil, errors.New("the test asked for this refusal")
	}
	response := &api.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		if err := o.record(container.DevicesIds); err != nil {
			return nil, err
		}
		visible := strings.Join(container.DevicesIds, ",")
		response.ContainerResponses = append(response.ContainerResponses,
			&api.ContainerAllocateResponse{Envs: map[string]string{"NVIDIA_VISIBLE_DEVICES": visible}})
	}
	return response, nil
}

// register returns a plugin that the kubelet knows. A stub cannot be started twice, so every
// attempt gets a new one.
func (o options) register(ctx context.Context, log klog.Logger) *plugin.Stub {
	socket := filepath.Join(api.DevicePluginPath, "lockstep-gpu.sock")
	for ; ; time.Sleep(pollInterval) {
		if !exists(api.KubeletSocket) {
			continue
		}
		stub := plugin.NewDevicePluginStub(log, o.devices(), socket, o.resource, false, false)
		stub.SetAllocFunc(o.allocate)
		err := stub.Start(ctx)
		if err == nil {
			err = stub.Register(ctx, api.KubeletSocket, o.resource, api.DevicePluginPath)
		}
		if err == nil {
			return stub
		}
		log.Error(err, "not registered; trying again")
		_ = stub.Stop(log)
	}
}

func main() {
	var o options
	flag.IntVar(&o.count, "devices", 8, "number of devices")
	flag.StringVar(&o.node, "node", "node", "name of the node, part of each device's id")
	flag.StringVar(&o.resource, "resource", "nvidia.com/gpu", "resource that the devices are")
	flag.StringVar(&o.folder, "folder", ".", "where the record and the flag files are")
	flag.Parse()

	ctx := context.Background()
	log := klog.FromContext(ctx)
	stub := o.register(ctx, log)
	// Registers again when the kubelet was restarted, 10 s later.
	go stub.Watch(ctx, api.KubeletSocket, o.resource, api.DevicePluginPath)
	known := o.devices()
	for ; ; time.Sleep(pollInterval) {
		if current := o.devices(); !reflect.DeepEqual(known, current) {
			stub.Update(current)
			known = current
		}
	}
}
