"""Runs several modules of tests one after the other, on one control plane where their options are
equal: on_one_plane.py gang_test users_test"""

from kubernetes_case import main

if __name__ == "__main__":
    main(module=None)
