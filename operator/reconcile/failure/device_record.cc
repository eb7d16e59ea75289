#include "operator/reconcile/failure/device_record.h"

#include <algorithm>

#include "common/contract/text.h"

namespace lockstep::control {

bool RecordsDevices(const TrainingJobSpec& spec) {
  int64_t count = 0;
  for (const RoleSpec& role : spec.roles) {
    count += role.replicas * role.gpus;
  }
  return count <= kDevicesRecordedMax;
}

std::vector<std::string> DevicesIn(const StatusDocument& document) {
  std::vector<std::string> devices;
  for (const DeviceStatus& device : document.devices) {
    devices.push_back(CutText(device.uuid, kDeviceNameBytesMax));
  }
  std::sort(devices.begin(), devices.end());
  return devices;
}

}  // namespace lockstep::control
