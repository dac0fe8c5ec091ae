"""What the programs must have been built from: digests of the module lists that the linker wrote into them.

By component, for Linux on amd64; other platforms link other modules. A program that is not listed is built with a note
of its digest, which goes here once it was looked at.
"""

CONTENTS = {
    "etcd": "b383e755932515a808adc423ab7d4b1869e98c67e07572f02906213105adde1f",
    "kube-apiserver": "63a0dc65b167f0e455c03fa9075c768992f040fc8b53eca86e985fbab35f7742",
    "kube-controller-manager": "ff952891893a41cb9b304068387242ffb27251ae168673363fa41c4315464301",
    "kube-scheduler": "ca9e7296e9f45ff74f83f432fb35ca1da23553ffa7541755d413d3e0abab860e",
    "kubectl": "63b74317bcd4e4b4912a31307e1e31ad38cbcedb11d5e87d50d677625e6d5083",
    "kwok": "16ba5e91801b5981ae7ba3fef2839f2691bb1c097cdc40b892d66476f66fe9a4",
    "lws": "0a05fbc881bbb5efb11d6bb458f8ff63586d47f38d3161a6a05a415b25cef158",
    "crossplane": "196547ba2f926b20d8a90edb1574591a67fdf34ba683be4b3c14549bd553fb28",
    "provider-kubernetes": "2f516a440e67a6e0d30601669e9c5c748eab76a2cc3c54144068176039fc19fd",
    "epp": "8ed740543b24f8d5c01d639f8ac5ab5a885a04c23b812b7d13f7e169274bbca7",
    "kai-scheduler": "8df3690a3ca422570a4472237476bfa20386d98686d4eadaff65e9bea220f140",
    "kai-binder": "854af54d665edde5d01489c1b016ce156759aaff5f82685566be01d384cac4fa",
    "kai-podgrouper": "aac8eb73b2f5dd3fdce2449a854f82478f3d531b65e84b091f8c542774f5eb3c",
    "kai-podgroupcontroller": "aac8eb73b2f5dd3fdce2449a854f82478f3d531b65e84b091f8c542774f5eb3c",
    "kai-queuecontroller": "aac8eb73b2f5dd3fdce2449a854f82478f3d531b65e84b091f8c542774f5eb3c",
    "kueue": "ca48326c9c7c335d7ff9ce891480b34d289ff5b74b0640b04d09407e10d13557",
    "vc-scheduler": "8f8087f0f3e115db550e5c30f983229739ee16ddcab4c3721a51cc35fe92f3e7",
    "vc-controller-manager": "9f4ffbbfc9410d1414a3dc9baed58f3488e09f2340556a2a34c02e5cbea53264",
    "cert-manager": "6abc22b522d54dabd9f727d4a4c59147aa516518d7e40a329038f5509543c8c3",
    "provider-helm": "59aee921deb17de84747d700eca90bbd1d15f5fb195de236acb0fff25050b357",
    "charts": "1a884d0518e4479ee6181af280ca680cb8df27aa61c1ebe5b5e3bfc00a660d2b",
    "envoy-gateway": "8eb359ebfb8aa71046e0b94a8a588934d1eabe5eeb816519d96b586f34fc7e1b",
    "llmisvc": "04d585f5932bbde22fbd5724f19c63890ddae3f331461890994bb2a72b89415e",
    "helm": "81a69b7b513117f14b62ac190ee920cd2e88b43f671501fce051b045b1527c8e",
}
