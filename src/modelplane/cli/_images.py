"""Options that say where the images of this release are, for commands that render what clusters run."""

import argparse
import os

from modelplane.compose.images import ReleaseImages


def add_images(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--images",
        default=os.environ.get("MODELPLANE_IMAGES", ""),
        metavar="REPOSITORY",
        help="where the images of this release were pushed, for clusters that name none (default: $MODELPLANE_IMAGES)",
    )
    parser.add_argument(
        "--loader-image",
        default=os.environ.get("MODELPLANE_LOADER_IMAGE", ""),
        metavar="IMAGE",
        help="another loader for these clusters (default: $MODELPLANE_LOADER_IMAGE)",
    )


def images_of(arguments: argparse.Namespace) -> ReleaseImages:
    return ReleaseImages(arguments.images, arguments.loader_image)
